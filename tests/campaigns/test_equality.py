"""The sweep over models and plans reports what is wrong, goes on from its results, and counts the strategies that were taken."""

import json
from dataclasses import asdict, replace

import pytest
from click.testing import CliRunner

from tests.campaigns import equality, equality_runs
from tests.campaigns.equality_runs import Case, Result, run_case
from tests.shared.campaigns import read_results
from tests.shared.commits import name_tree

CASE = Case("image", "float64", 2, seeds=(0, 1), has_default=True, steps=1, default_steps=1)


def test_a_case_counts_the_halos_of_its_plans():
    case, result = run_case(CASE)
    assert (case, result.plans, result.problems) == (CASE, 3, [])
    assert 0 < result.step_error < 1e-12
    taken = {(op, axis): count for op, axis, count in result.taken}
    assert {("Convolution 2d", "y0"), ("_backward_Deconvolution 2d", "y1")} <= set(taken)
    assert set(taken.values()) <= {0, 1, 2}
    assert any(taken.values())


def test_another_number_is_a_problem(monkeypatch):
    real = equality_runs.run_partitioned

    def wrong(executor, values, steps):
        step, weights, moved = real(executor, values, steps)
        return replace(step, outputs={name: output + 1e-3 for name, output in step.outputs.items()}), weights, moved + 1

    monkeypatch.setattr(equality_runs, "run_partitioned", wrong)
    _, result = run_case(replace(CASE, seeds=()))
    assert len(result.problems) == 2
    assert "kernels read" in result.problems[0]
    assert "step off by" in result.problems[1]


def test_a_plan_that_fails_leaves_the_others(monkeypatch):
    def fail(partition):
        raise ValueError("no such graph")

    monkeypatch.setattr(equality_runs, "check_graph", fail)
    _, result = run_case(CASE)
    assert result.problems == [
        f"{what}: ValueError: no such graph" for what in ("the default plan", "random plan 0", "random plan 1")
    ]


def keep(path, tree, case, result):
    path.write_text(json.dumps({"tree": tree, "case": asdict(case), "result": asdict(result)}) + "\n")


def test_results_of_another_tree_are_not_taken(tmp_path):
    path, result = tmp_path / "results.jsonl", Result()
    keep(path, "1234567", CASE, result)
    assert read_results(path, Case, Result) == {}
    keep(path, name_tree(), CASE, result)
    assert read_results(path, Case, Result) == {CASE.key: (CASE, result)}


@pytest.mark.parametrize("bad", [False, True])
def test_the_table_from_kept_results(tmp_path, bad, monkeypatch):
    path = tmp_path / "results.jsonl"
    case, result = run_case(replace(CASE, steps=2, default_steps=equality.DEFAULT_STEPS))
    result.problems += ["random plan 0: step off by 1, allowed are 0"] * bad
    keep(path, name_tree(), case, result)
    monkeypatch.setattr(equality, "run_case", None)  # there is nothing left to run
    options = ["--models", "image", "--dtypes", "float64", "--workers", "2", "--plans", "2"]
    found = CliRunner().invoke(equality.main, [*options, "--results", str(path)])
    assert found.exit_code == bad, found.output
    assert "image" in found.output
    covered = CliRunner().invoke(equality.main, ["--coverage", "--results", str(path)])
    assert "never taken: " in covered.output  # two plans do not take everything
    assert covered.exit_code == 1
