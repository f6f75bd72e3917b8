"""Experiments on why claims do not hold: what each changes does what it says, and the page tells what came of it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.evaluation import counterfactuals
from benchmarks.evaluation.__main__ import FOLDER
from benchmarks.evaluation.causes import TABLE, Finding, list_causes
from benchmarks.evaluation.claims import Claim, list_claims
from benchmarks.evaluation.experiments import CHANGES, Change
from benchmarks.evaluation.held_memory import Added, Freed, measure_held
from benchmarks.evaluation.measure import Planned
from benchmarks.evaluation.page import CSV, read_tables
from benchmarks.evaluation.policies import (
    DEFAULT_PLACEMENT,
    Outcome,
    Overlap,
    _place,
    run_ideal,
    run_placement,
    run_swapping,
)
from benchmarks.evaluation.programs import STATES, Programs
from benchmarks.evaluation.swapping import Swapping, _Device, _list_uses, _order_by_reuse
from benchmarks.evaluation.tables import read_table, write_table
from tests.models.paper import rnn
from tofu.program import NodeKind
from tofu.simulation import read_machine
from tofu.simulation.tasks import make_tasks

MACHINE = read_machine("p2.8xlarge")
PROGRAMS = Programs("small", lambda batch: rnn(2, 256, batch, time_steps=12, features=64, classes=32))


@pytest.fixture(scope="module")
def small():
    """A machine on which 64 samples do not fit."""
    needed = run_ideal(PROGRAMS, 64, MACHINE).needed_bytes
    return replace(MACHINE, memory_bytes=MACHINE.reserved_bytes + needed // 2)


def test_the_later_fetches_are_issued_the_slower_swapping_is(small):
    found = [run_swapping(PROGRAMS, (64,), small, Swapping(ahead=n)).throughput for n in (0, 1, 4, 10**6)]
    assert found == sorted(found)
    assert 0 < found[0] < found[-1] == run_swapping(PROGRAMS, (64,), small).throughput


@pytest.mark.parametrize(("way", "loads"), [(Swapping(), 5), (Swapping(knows_next_use=True), 4)])
def test_of_three_tensors_in_turn_in_the_room_of_two_who_knows_the_next_use_keeps_one(way, loads):
    tensors = [("entry", number) for number in range(3)]
    positions = {one: [number, number + 3] for number, one in enumerate(tensors)}
    device = _Device(2, 1.0, dict.fromkeys(tensors, 1), positions, set(tensors), way, 6)
    for position in range(6):
        assert device.run(position, position, [tensors[position % 3]], set(), 1e-6)
    assert device.computed == pytest.approx(loads, abs=1e-4)


def test_an_order_of_reuse_has_every_task_after_what_it_waits_for():
    emitted, _ = PROGRAMS.one_device(8)
    tasks = make_tasks(emitted, MACHINE, STATES)
    uses, size, _ = _list_uses(emitted, tasks, STATES)
    order = _order_by_reuse(tasks, uses, size)
    place = {task: number for number, task in enumerate(order)}
    assert sorted(order) == list(range(len(tasks))) != order
    weights = {("entry", n) for n, t in enumerate(emitted.program.entry_tensor) if t in emitted.problem.graph.updated}
    largest = [max(own, key=size.get) if own else None for own in uses]
    products = [[largest[task] for task in one if largest[task] in weights] for one in (order, sorted(order))]
    reused, plain = (sum(a != b for a, b in itertools.pairwise(one)) for one in products)
    assert 0 < reused < plain
    assert all(place[before] < place[task] for task in order for before in tasks.waits_for[task])


def test_a_host_that_is_written_while_it_is_read_is_faster_and_no_more_than_twice(small):
    slow = small.scale("host", 0.01)
    one, two = (run_swapping(PROGRAMS, (64,), slow, Swapping(is_duplex=own)).throughput for own in (False, True))
    assert one < two < 2 * one


def test_the_largest_batch_that_runs_need_not_be_the_fastest(small):
    slow = small.scale("host", 0.01)
    fastest, largest = (run_swapping(PROGRAMS, (64, 8), slow, Swapping(takes_largest=own)) for own in (False, True))
    assert (largest.batch, fastest.batch) == (64, 8)
    assert 0 < largest.throughput < fastest.throughput


def test_memory_that_is_freed_later_is_more():
    emitted, _ = PROGRAMS.partition(16, "recursive")
    workers = emitted.program.tables.node_worker.tolist()
    found = [max(measure_held(emitted, workers, freed)) for freed in Freed]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    tables, graph = emitted.program.tables, emitted.problem.graph
    entry_worker = tables.node_worker[tables.entry_node]
    states = sum(
        int(size)
        for size, tensor, node in zip(
            emitted.program.entry_bytes, emitted.program.entry_tensor, tables.entry_node, strict=True
        )
        if tensor in graph.updated and tables.node_kind[node] == NodeKind.VARIABLE and tables.node_worker[node] == 0
    )
    assert measure_held(emitted, workers, Freed.AT_END)[0] == int(
        emitted.program.entry_bytes[entry_worker == 0].sum() + STATES * states
    )


def test_gradients_that_are_added_all_at_once_are_held_until_then():
    emitted, _ = PROGRAMS.one_device(16)
    placed = _place(emitted)
    in_place, apart, together = (max(measure_held(emitted, placed, added=added)) for added in Added)
    graph = emitted.problem.graph
    weight = max(graph.tensors[tensor].size_bytes for tensor in graph.updated)
    assert in_place <= apart
    assert together > apart + 5 * weight  # of 12 time steps


def test_pipelines_lie_between_layers_one_after_the_other_and_no_waiting():
    one, ready, full = (
        run_placement(PROGRAMS, (64,), MACHINE, replace(DEFAULT_PLACEMENT, overlap=overlap)).throughput
        for overlap in (Overlap.NONE, Overlap.READY, Overlap.FULL)
    )
    assert one < ready < full


def test_every_experiment_is_about_a_claim_and_every_claim_that_does_not_hold_has_one():
    tables = read_tables(FOLDER)
    claims = list(list_claims(tables.by_model, tables.planned))
    for change in CHANGES:
        assert all(any(claim.claim.startswith(begin) for claim in claims) for begin in change.claims), change.name
    about = tuple(begin for change in CHANGES for begin in change.claims)
    assert [claim.claim for claim in claims if not claim.holds and not claim.claim.startswith(about)] == []
    assert len({change.name for change in CHANGES}) == len(CHANGES)


def test_the_committed_page_tells_of_the_experiments_that_are_there():
    tables, rows = read_tables(FOLDER), read_table(FOLDER / TABLE, Finding)
    claims = list(list_claims(tables.by_model, tables.planned))
    page = (FOLDER / "README.md").read_text().splitlines()
    assert [line for line in list_causes(claims, rows) if line not in page] == []
    assert {row.change for row in rows} == {change.name for change in CHANGES}
    assert {row.claim for row in rows if row.is_about} == {claim.claim for claim in claims if not claim.holds}


CLAIMS = [
    Claim("a", "1", "2", False),
    Claim("b", "1", "2", False),
    Claim("c", "1", "2", False),
    Claim("d", "1", "1", True),
]


def test_the_page_says_what_an_experiment_decides_what_it_breaks_and_what_none_does():
    rows = [
        Finding("x is gone", "a", "2", "1", False, True, True),
        Finding("y is gone", "b", "2", "1", False, True, True),
        Finding("y is gone", "d", "1", "3", True, False, False),
        Finding("x is gone", "c", "2", "2.5", False, False, True),
    ]
    lines = list(list_causes(CLAIMS, rows))
    assert "| b | 2 | y is gone | 1 | **yes** | d |" in lines
    assert "| c | 2 | x is gone | 2.5 | no |  |" in lines
    said = {line[2]: line for line in lines if line.startswith("- ")}
    assert said["a"] == "- a: it holds where x is gone."
    assert said["b"].startswith("- b: it holds where y is gone, but then others do not.")
    assert said["c"].startswith("- c: no experiment of 1 decides it. Most likely ")
    assert "d" not in said


def test_an_experiment_runs_what_it_changes_beside_what_was_measured(tmp_path, monkeypatch):
    policies = "ideal", "small batch", "swapping", "Tofu"
    seconds = {"icml18": 2.14, "recursive": 2.0}
    planned = [Planned("rnn-4-8k", algorithm, own, 1.0, 0, True) for algorithm, own in seconds.items()]
    base = [Outcome("rnn-6-4k", policy, 512, 210.0) for policy in policies]
    for name, rows in zip(CSV, (base, planned, []), strict=True):
        write_table(tmp_path / name, rows)
    asked = []

    def run(name, machine, programs, change):
        asked.append((name, change.name))
        return {"Tofu": Outcome(name, "Tofu", 512, 21.0)}

    def plan(programs, batch, algorithm, machine):
        return Planned(programs.model, algorithm, 4.0, 1.0, 0, True)

    changes = (
        Change("links are slow", ("Table 3",), ("Tofu",), ("rnn-6-4k",), plans="rnn-4-8k"),
        Change("nothing is asked", ("Table 3",), ("Tofu",), ()),
    )
    monkeypatch.setattr(counterfactuals, "CHANGES", changes)
    monkeypatch.setattr(counterfactuals, "_run", run)
    monkeypatch.setattr(counterfactuals, "COMPARED", {"rnn-4-8k": ["recursive"], "wresnet-152-10": []})
    monkeypatch.setattr(counterfactuals, "measure_algorithm", plan)
    result = CliRunner().invoke(counterfactuals.main, ["--models", "rnn-6-4k", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert asked == [("rnn-6-4k", "links are slow")]
    rows = read_table(tmp_path / TABLE, Finding)
    (row,) = [one for one in rows if one.claim.endswith("Tofu")]
    (of_plans,) = [one for one in rows if one.claim.startswith("ICML18's step")]
    assert (of_plans.change, of_plans.without, of_plans.changed) == ("links are slow", "1.07", "0.535")
    assert (row.change, row.without, row.changed, row.held, row.holds) == ("links are slow", "210", "21", True, False)


def test_other_memory_is_measured_of_the_same_programs():
    twice = PROGRAMS.measure_by(lambda emitted: [2 * emitted.program.workers, 1])
    assert twice.one_device(8) == (PROGRAMS.one_device(8)[0], 2)
    assert twice.partition(16, "recursive") == (PROGRAMS.partition(16, "recursive")[0], (16, 1))
    assert np.all(np.array(PROGRAMS.partition(16, "recursive")[1]) > 16)


def test_who_shares_no_fetches_moves_more():
    change = Change("each fetches for itself", (), (), (), rereads=True)
    alone, needed = counterfactuals._change_programs(PROGRAMS, change).partition(16, "recursive")
    shared, _ = PROGRAMS.partition(16, "recursive")
    assert alone.program.remote_bytes > shared.program.remote_bytes
    assert needed == PROGRAMS.partition(16, "recursive")[1]
