"""The campaign that holds JAX steps under many plans against one device."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from jax import lax

from tests.campaigns import jax_equality
from tests.campaigns.jax_equality import largest_error, list_cases, list_excused, run_case
from tests.models.jax import load_models, plain
from tests.shared import campaigns
from tests.shared.commits import name_tree


@pytest.fixture
def small(monkeypatch):
    """One model alone, of one product."""

    def one_product(dtype):
        loss = lambda params, data: ((data @ params) ** 2).mean()  # noqa: E731
        return plain.descend(loss), plain.draw((128, 128), dtype), plain.draw((16, 128), dtype, 1)

    monkeypatch.setattr(plain, "STEPS", {"one_product": one_product})
    monkeypatch.setattr("tests.models.jax.STEPS", plain.STEPS)


def test_every_model_runs_on_all_numbers_of_workers():
    cases = list(list_cases(list(load_models()), [2, 3, 4, 6, 8], 30, 2, 20))
    for name in load_models():
        for workers in (2, 3, 4, 6, 8):
            own = [c for c in cases if (c.model, c.workers, c.dtype) == (name, workers, "float64")]
            assert sorted(seed for case in own for seed in case.seeds) == list(range(30))
            assert [case.has_default for case in own].count(True) == 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_plans_equal_one_device(small, dtype):
    (case,) = (c for c in list_cases(["one_product"], [4], 2, 2, 3) if c.dtype == dtype)
    _, result = run_case(case)
    assert (result.plans, result.problems) == (3, [])
    assert result.error < 1e-10 if dtype == "float64" else 0 < result.error < 1e-5


@pytest.mark.usefixtures("small")
def test_plans_of_loops_equal_one_device(monkeypatch):
    """What a loop hands from step to step lies as what it becomes after the loop."""

    def loop(dtype):
        def loss(params, data):
            return lax.scan(lambda h, x: (jnp.tanh(h @ params + x), None), data[0], data)[0].sum()

        return plain.descend(loss), plain.draw((64, 64), dtype), plain.draw((3, 8, 64), dtype, 1)

    monkeypatch.setitem(plain.STEPS, "loop", loop)
    (case,) = (c for c in list_cases(["loop"], [4], 3, 2, 3) if c.dtype == "float64")
    _, result = run_case(case)
    assert (result.plans, result.problems) == (4, [])


def test_what_differs_is_a_problem_and_is_kept(small, monkeypatch, tmp_path):
    path, arguments = (
        tmp_path / "results.jsonl",
        ["--models", "one_product", "--workers", "2", "--plans", "1"],
    )
    monkeypatch.setattr(jax_equality, "LIMIT", -1.0)  # nothing is near enough
    monkeypatch.setattr(campaigns, "run_cases", lambda run, cases, kind, jobs, path, *_, **__: _keep(cases, path))
    found = CliRunner().invoke(jax_equality.main, [*arguments, "--results", str(path)])
    assert found.exit_code == 1
    assert "one_product, float64, 2 workers, the default plan: off by" in found.output
    assert "random plan 0: off by" in found.output
    again = CliRunner().invoke(jax_equality.main, ["--summary", "--results", str(path)])
    assert (again.exit_code, again.output) == (1, found.output)


def _keep(cases, path):
    """As the campaign does, in this process."""
    lines = [{"tree": name_tree(), "case": vars(case), "result": vars(run_case(case)[1])} for case in cases]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_errors_are_relative_and_what_is_no_number_counts():
    whole = [np.array([1.0, 100.0]), np.array([np.inf, np.nan, 2.0])]
    assert largest_error(whole, whole) == 0
    assert largest_error([np.array([2.0, 100.0]), whole[1]], whole) == 0.01
    assert not largest_error([whole[0], np.array([np.inf, 0.0, 2.0])], whole) <= 1e300
    assert not largest_error([whole[0], np.array([0.0, np.nan, 2.0])], whole) <= 1e300


def test_what_one_device_makes_of_a_rounding_does_not_count():
    noise, number = np.array([1e-17]), np.array([3.0])
    assert largest_error([-noise, number], [noise, number]) == 2
    assert largest_error([-noise, number], [noise, number], [0.5 * noise, number]) == 0
    assert largest_error([-noise, 1.01 * number], [noise, number], [0.5 * noise, number * (1 + 1e-15)]) > 0.009
    assert largest_error([100 * noise], [noise], [0.5 * noise]) == 99
    near = [number * (1 + 1e-12)]  # as far off as a rounding takes it, and allowed: it counts
    assert 5e-13 < largest_error(near, [number], near) < 2e-12
    assert list_excused([-noise, *near], [noise, number], [0.5 * noise, *near]) == [True, False]
