"""Steps on the devices of several processes, which stand for hosts, against the step on one device."""

from __future__ import annotations

import re
import subprocess
import sys
from threading import Thread
from types import SimpleNamespace

import jax
import pytest

from tests.jax.processes import ROOT, Scenario, end, find_port, prepare, run
from tofu.errors import DeviceError
from tofu.jax.hosts import find_topology, list_devices

EXAMPLE = ROOT / "examples/jax/two_processes.py"


IN_ONE_GROUP = (
    Scenario("misfeed"),
    *(Scenario("disagree", (what,)) for what in ("plan", "batch", "later batch")),
    *(Scenario("lay_out", (columns,)) for columns in ("128", "130")),
    *(Scenario("train", ("mlp", feed)) for feed in ("whole", "parts")),
    Scenario("train", ("transformer", "parts")),
    *(Scenario("train_steps", (replicate,)) for replicate in ("small", "free")),
    *(Scenario("count", (name,), double=False) for name in ("mlp", "transformer")),
)
"""Scenarios that two processes of two devices each run one after another."""


@pytest.fixture(scope="module")
def outcomes():
    return dict(zip(IN_ONE_GROUP, run(IN_ONE_GROUP, 2, 2, seconds=400), strict=True))


@pytest.fixture
def ask(outcomes):
    """Return a function which returns what a scenario returned in each process."""
    return lambda name, *arguments, double=True: read(outcomes[Scenario(name, arguments, double)])


def read(outcome):
    failed = [f"process {number}: {one['failed']}" for number, one in enumerate(outcome) if "failed" in one]
    assert not failed, "\n".join(failed)
    return [one["returned"] for one in outcome]


def check_training(told, most=1e-10):
    assert len({one["plan"] for one in told}) == 1
    assert told[0]["factors"] == [2, 2]
    for one in told:
        assert one["first_distance"] < 1e-10
        assert one["distance"] < most
        assert len({expected for _, expected in one["losses"]}) == 3, "the step does not train"
        assert one["losses"] == told[0]["losses"], "a result that all have is the same in all"
        assert one["held_bytes"] < 1.01 * one["whole_bytes"] / len(told)


@pytest.mark.parametrize("feed", ["whole", "parts"])
def test_it_trains_as_on_one_device(ask, feed):
    """Three steps in double precision, whose batches each process has all of, or its part."""
    check_training(ask("train", "mlp", feed))


def test_a_transformer_does_too(ask):
    """The first loss is equal. AdamW enlarges roundings of gradients near zero, so later steps differ by up to 2e-7."""
    check_training(ask("train", "transformer", "parts"), most=1e-6)


@pytest.mark.parametrize("replicate", ["small", "free"])
def test_loops_borders_of_windows_and_steps_beside_do_too(ask, replicate):
    for distances in ask("train_steps", replicate):
        assert len(distances) == 4
        assert max(distances.values()) < 1e-10, distances


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_what_crosses_hosts_is_what_the_plan_counts(ask, name):
    """In XLA's own text; and it is less than without levels."""
    for one in ask("count", name, double=False):
        for moved, planned in zip(one["moved"], one["planned"], strict=True):
            assert 0.9 <= moved / planned <= 1.02
        assert one["planned"][0] == one["between"]
        assert one["planned"][0] < one["without_levels"]
        if name == "transformer":
            page = " ".join((ROOT / "docs/jax.md").read_text().split())
            assert (
                f" {one['between'] / 1e6:.1f} MB go between hosts in a step, and {one['without_levels'] / 1e6:.1f} MB would"
                in page
            )


@pytest.mark.parametrize("columns", ["128", "130"], ids=["equal parts", "unequal parts"])
def test_values_of_all_kinds_are_laid_out(ask, columns):
    """Whole in each process, lying otherwise on all devices, or in parts that the plan has in another process."""
    assert max(ask("lay_out", columns)) < 1e-14


def test_other_plans_are_told_by_both_fingerprints(ask):
    (kind, text, first), (_, same, second) = ask("disagree", "plan")
    assert (kind, text) == ("PlanError", same)
    assert first != second
    assert text.startswith(
        f"Process 0 has plan {first}, and process 1 has plan {second}. Plan the same step in all processes"
    )


@pytest.mark.parametrize("when", ["batch", "later batch"])
def test_other_values_of_what_is_given_whole_are_told(ask, when):
    for kind, text, _ in ask("disagree", when):
        assert kind == "UnsupportedError"
        assert text.startswith("Complete arguments must be equal in all processes, and these differ")
        assert text.endswith("\n  - batch/0, in process 0 and 1")


def test_parts_that_are_none_and_devices_of_others_are_told(ask):
    for process, (whole, short, tree, devices) in enumerate(ask("misfeed")):
        of_each = "and the part of (256, 512) that each of 2 processes has is (128, 512)."
        assert whole == f"batch/0 has shape (256, 512), {of_each}"
        assert short == f"batch/0 has shape (3, 512), {of_each}"
        assert tree.startswith("The value does not match batch, argument 1 of the step. Missing: batch/0, batch/1.")
        assert devices.startswith(f"Process {process} has none of the 2 devices.")


def test_a_killed_process_ends_the_others_and_training_goes_on_with_more(tmp_path):
    """From two processes of two devices to four of one. The process that coordinates is killed: JAX waits for its heartbeats where it is
    another one.
    """
    address = f"127.0.0.1:{find_port()}"
    command = [sys.executable, EXAMPLE, "--directory", tmp_path, "--every", "2", "--steps", "100000"]
    processes = [
        subprocess.Popen(
            [*command, "--address", address, "--process", str(process)],
            env=prepare(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for process in range(2)
    ]
    try:
        printed = read_until(processes[0], r" +5 .*", seconds=120)
        processes[0].kill()
        rest, _ = processes[1].communicate(timeout=160)
        assert processes[1].returncode != 0
        assert "another task died" in rest
    finally:
        end(processes)
    done = max(int(path.parent.name.removeprefix("step-")) for path in tmp_path.glob("*/complete"))
    assert done >= 4, printed
    again = [*command[:-1], str(done + 2), "--processes", "4", "--devices", "1"]
    resumed = subprocess.run(again, env=prepare(), capture_output=True, text=True, timeout=240)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert re.search(r"^The plan: 4 workers move [\d,]+ bytes in a step", resumed.stdout, re.MULTILINE)
    first, then = find_losses("".join(printed)), find_losses(resumed.stdout)
    assert [number for number, _, _ in first] == ["1", "2", "3", "4", "5"]
    assert [int(number) for number, _, _ in then] == [done + 1, done + 2]
    assert len({expected for _, expected, _ in first}) == 5, "the step does not train"
    assert all(ours == theirs for _, ours, theirs in first + then)


def find_losses(printed):
    """Return the number of each step with the losses on one device and on all, as words."""
    return re.findall(r"^ +(\d+) +(\d+\.\d+) +(\d+\.\d+)$", printed, re.MULTILINE)


def read_until(process, pattern, seconds):
    """The lines that a process prints as far as one of a pattern."""
    lines = []

    def read():
        while not lines or not re.fullmatch(pattern, lines[-1].rstrip()):
            line = process.stdout.readline()
            assert line, lines
            lines.append(line)

    thread = Thread(target=read, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), lines
    return lines


def stand_in(*hosts):
    """Devices of these processes."""
    return [SimpleNamespace(process_index=host, platform="cpu", id=n) for n, host in enumerate(hosts)]


def test_devices_are_taken_process_by_process(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: stand_in(0, 1, 0, 1, 0, 1))
    assert [device.id for device in list_devices(6)] == [0, 2, 4, 1, 3, 5]
    assert [device.id for device in list_devices(4)] == [0, 2, 1, 3]
    with pytest.raises(
        DeviceError, match=r"3 devices are asked for, and 2 processes have 3 \+ 3\. Each gives equally many"
    ):
        list_devices(3)
    with pytest.raises(DeviceError, match="8 devices are asked for, and JAX has 6"):
        list_devices(8)
    monkeypatch.setattr(jax, "devices", lambda: stand_in(0, 0, 0, 1))
    with pytest.raises(DeviceError, match=r"2 processes have 3 \+ 1"):
        list_devices(4)


def test_levels_follow_from_the_processes_of_devices():
    found = find_topology(stand_in(0, 0, 0, 2, 2, 2))
    assert [(level.workers, level.bytes_per_second) for level in found.levels] == [(2, 25e9), (3, 1200e9)]
    for one_level in (stand_in(0, 0), stand_in(0, 1), stand_in(0, 1, 0, 1), stand_in(0, 0, 0, 1)):
        assert find_topology(one_level) is None
