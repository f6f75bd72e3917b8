"""The paper's evaluation: its policies on small models, against what has to hold of them whatever the machine is."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.evaluation import __main__ as evaluation
from benchmarks.evaluation.claims import list_claims
from benchmarks.evaluation.measure import Planned
from benchmarks.evaluation.policies import (
    DEFAULT_PLACEMENT,
    LAYER,
    OF_TENSORFLOW,
    Outcome,
    _place,
    run_ideal,
    run_partitioned,
    run_placement,
    run_small_batch,
    run_swapping,
)
from benchmarks.evaluation.programs import DEVICES, Programs
from benchmarks.evaluation.tables import read_table, write_table
from tests.models.paper import rnn
from tofu.simulation import read_machine

MACHINE = read_machine("p2.8xlarge")


build = Programs("small", lambda batch: rnn(4, 256, batch, time_steps=4, features=64, classes=32))


def limit(needed):
    """The machine with just so much memory for a model."""
    return replace(MACHINE, memory_bytes=MACHINE.reserved_bytes + needed)


def test_a_small_batch_is_the_largest_that_fits():
    needed = run_ideal(build, 16, MACHINE).needed_bytes
    assert run_small_batch(build, (64, 16, 8), limit(needed)).batch == 16
    assert not run_small_batch(build, (64, 32), limit(needed)).fits


def test_with_memory_enough_swapping_is_the_ideal():
    ideal = run_ideal(build, 64, MACHINE)
    assert run_swapping(build, (64,), MACHINE).throughput == pytest.approx(ideal.throughput, rel=0.02)


def test_the_less_memory_the_slower_swapping_is():
    needed = run_ideal(build, 64, MACHINE).needed_bytes
    found = [run_swapping(build, (64,), limit(int(part * needed))).throughput for part in (1.2, 0.6, 0.4)]
    assert found[0] > found[1] > found[2] > 0


def test_swapping_moves_at_the_share_of_the_host_that_a_device_has():
    needed = run_ideal(build, 64, MACHINE).needed_bytes
    small = limit(needed // 2)
    slow, fast = (run_swapping(build, (64,), small.scale("host", factor)).throughput for factor in (0.5, 100))
    assert slow < run_swapping(build, (64,), small).throughput < fast


def test_a_kernel_that_needs_more_than_the_memory_cannot_be_swapped():
    assert not run_swapping(build, (64,), limit(1000)).fits


def test_placement_pipelines_layers_and_is_no_faster_than_as_many_devices():
    ideal, placed = run_ideal(build, 64, MACHINE), run_placement(build, (64,), MACHINE)
    alone = ideal.throughput / DEVICES
    assert alone < placed.throughput <= 4 * alone


def test_what_names_no_layer_is_placed_with_what_it_reads():
    emitted, _ = build.one_device(16)
    graph, tables = emitted.problem.graph, emitted.program.tables
    placed = dict(zip(emitted.program.entry_tensor.tolist(), np.array(_place(emitted))[tables.entry_node], strict=True))
    for parameter in graph.updated:
        layer = LAYER.search(graph.tensors[parameter].name)
        device = int(layer[1]) if layer else 3  # the last of four layers
        assert placed[parameter] == placed[graph.gradients[parameter]] == device
    assert {placed[t] for operator in graph.operators for t in operator.outputs} == {0, 1, 2, 3}


def test_gradients_that_are_not_added_in_place_need_more_memory():
    # MXNet adds the gradients of few steps at once.
    build_long = Programs("long", lambda batch: rnn(2, 256, batch, time_steps=12, features=64, classes=32))
    whole, apart = (run_placement(build_long, (16,), MACHINE, way) for way in (DEFAULT_PLACEMENT, OF_TENSORFLOW))
    assert apart.needed_bytes > whole.needed_bytes


def test_partitions_hold_a_share_of_the_memory():
    assert run_partitioned(build, (64,), MACHINE).needed_bytes < run_ideal(build, 64, MACHINE).needed_bytes / 4


def test_claims_say_what_holds_and_what_does_not():
    names = ("ideal", "small batch", "swapping", "operator placement", "Tofu")
    made = {
        "rnn-6-4k": {
            name: Outcome("rnn-6-4k", name, 512, value)
            for name, value in zip(names, (220, 100, 50, 107, 210), strict=True)
        }
    }
    claims = {
        claim.claim: claim for claim in list_claims(made, [Planned("wresnet-152-10", "icml18", 2, 1, 1 << 34, False)])
    }
    assert claims["Table 3, samples per second, rnn-6-4k, Tofu"].holds
    assert claims["placement's part of Tofu's throughput"].holds
    assert claims["icml18 on WResNet-152-10"].holds
    assert not claims["swapping's part of Tofu's throughput, WResNet"].holds  # nothing is known of any


def test_machines_share_programs_and_differ_in_time():
    slow, fast = (run_partitioned(build, (64,), MACHINE.scale("links", factor)) for factor in (0.1, 10))
    assert build.partition(64, "recursive") is build.partition(64, "recursive")
    assert slow.needed_bytes == fast.needed_bytes
    assert slow.throughput < fast.throughput


def test_tables_are_read_as_they_were_written(tmp_path):
    rows = [
        Planned("a, b", "exact", 0.25, 0.125, 1 << 40, True, 'no "plan"'),
        Planned("c", "icml18", 0.0, 0.0, 0, False),
    ]
    write_table(tmp_path / "table.csv", rows)
    assert read_table(tmp_path / "table.csv", Planned) == rows


@pytest.fixture
def measured(monkeypatch):
    """Outcomes that nobody has to wait for: on a machine of slow links, Tofu is slow."""
    policies = ("ideal", "small batch", "swapping", "operator placement", "Tofu")

    def measure_model(name, machines):
        return [
            [Outcome(name, policy, 512, 210.0 * (machine.links[0].bytes_per_second / 21e9) ** 2) for policy in policies]
            for machine in machines
        ]

    def measure_algorithms(machines):
        return [[Planned("rnn-4-8k", "recursive", 2.0, 1.5, 1 << 30, True)] for _ in machines]

    monkeypatch.setattr(evaluation, "measure_model", measure_model)
    monkeypatch.setattr(evaluation, "measure_algorithms", measure_algorithms)


@pytest.mark.usefixtures("measured")
def test_the_page_has_a_row_for_each_claim_and_says_on_which_machines_it_is_otherwise(tmp_path):
    result = CliRunner().invoke(evaluation.main, ["--models", "rnn-6-4k", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "README.md").read_text()
    outcomes = read_table(tmp_path / "throughput.csv", Outcome)
    claims = list(list_claims({"rnn-6-4k": {one.policy: one for one in outcomes}}, []))
    assert page.count("| yes |") + page.count("| **no** |") == len(claims)
    assert "| Table 3, samples per second, rnn-6-4k, Tofu | 210 | 210 | yes | links up, links down |" in page
    assert len((tmp_path / "sensitivity.csv").read_text().splitlines()) == 1 + 12 * len(claims)
    again = CliRunner().invoke(evaluation.main, ["--again", "--output", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "README.md").read_text() == page


@pytest.mark.usefixtures("measured")
def test_without_sensitivity_no_other_machine_is_named(tmp_path):
    result = CliRunner().invoke(
        evaluation.main, ["--models", "rnn-6-4k", "--no-sensitivity", "--output", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert "links down" not in (tmp_path / "README.md").read_text()
    assert {path.name for path in tmp_path.glob("*.png")} == {"throughput.png", "algorithms.png"}
