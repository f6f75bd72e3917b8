"""Steps on the devices of several processes, which stand for hosts, compared with one device."""

import re
import subprocess
import sys
from threading import Thread
from types import SimpleNamespace

import jax
import pytest

import tofu.jax
from tests.jax.host_processes import ROOT, Scenario, find_port, kill, make_environment, run
from tofu.errors import DeviceError
from tofu.jax.hosts import find_topology, list_devices
from tofu.simulation.machine import make_topology, read_machine

EXAMPLE = ROOT / "examples/jax/two_processes.py"


IN_ONE_GROUP = (
    Scenario("misuse"),
    *(Scenario("disagree", (what,)) for what in ("plan", "later batch")),
    *(Scenario("place_values", (columns,)) for columns in ("128", "130")),
    Scenario("train", ("mlp", "whole")),
    Scenario("train", ("transformer", "parts")),
    Scenario("count", ("transformer",), double=False),
)


@pytest.fixture(scope="module")
def outcomes():
    return dict(zip(IN_ONE_GROUP, run(IN_ONE_GROUP, 2, 2, seconds=400), strict=True))


@pytest.fixture
def run_scenario(outcomes):
    return lambda name, *arguments, double=True: read(outcomes[Scenario(name, arguments, double)])


def read(outcome):
    failed = [f"process {number}: {each['failed']}" for number, each in enumerate(outcome) if "failed" in each]
    assert not failed, "\n".join(failed)
    return [each["returned"] for each in outcome]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "feed", "most"), [("mlp", "whole", 1e-10), ("transformer", "parts", 1e-6)])
def test_examples_train_as_on_one_device(run_scenario, name, feed, most):
    """Compare three steps. AdamW enlarges roundings of gradients near zero, so later steps may differ more."""
    outcomes = run_scenario("train", name, feed)
    assert len({outcome["plan"] for outcome in outcomes}) == 1
    assert outcomes[0]["factors"] == [2, 2]
    for outcome in outcomes:
        assert outcome["first_error"] < 1e-10
        assert outcome["error"] < most
        assert len({expected for _, expected in outcome["losses"]}) == 3, "the step does not train"
        assert outcome["losses"] == outcomes[0]["losses"], "processes disagree about a replicated result"
        assert outcome["held_bytes"] < 1.01 * outcome["whole_bytes"] / len(outcomes)


@pytest.mark.slow
def test_bytes_between_hosts_are_those_of_the_plan(run_scenario):
    for counted in run_scenario("count", "transformer", double=False):
        between, total = (a / b for a, b in zip(counted["moved"], counted["planned"], strict=True))
        assert 0.9 <= total <= 1.02
        assert 0.9 <= between <= 1.1  # sums are exchanged by all-to-all here, whose devices do not relay
        assert counted["planned"][0] == counted["between"] < counted["without_levels"]


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["128", "130"], ids=["equal parts", "unequal parts"])
def test_values_of_all_kinds_are_placed(run_scenario, columns):
    assert max(run_scenario("place_values", columns)) < 1e-14


@pytest.mark.slow
def test_different_plans_are_refused_with_both_fingerprints(run_scenario):
    (kind, text, first), (_, same, second) = run_scenario("disagree", "plan")
    assert (kind, text) == ("PlanError", same)
    assert first != second
    assert text.startswith(
        f"Process 0 has plan {first}, and process 1 has plan {second}. Plan the same step in all processes"
    )


@pytest.mark.slow
def test_replicated_arguments_that_differ_are_refused(run_scenario):
    for kind, text, _ in run_scenario("disagree", "later batch"):
        assert kind == "UnsupportedError"
        assert text.startswith("Complete arguments must be equal in all processes, and these differ")
        assert text.endswith("\n  - batch/0, in process 0 and 1")


@pytest.mark.slow
def test_wrong_parts_and_devices_of_other_processes_are_refused(run_scenario):
    for process, (whole, short, tree, devices) in enumerate(run_scenario("misuse")):
        of_each = "and the part of (256, 512) that each of 2 processes has is (128, 512)."
        assert whole == f"batch/0 has shape (256, 512), {of_each}"
        assert short == f"batch/0 has shape (3, 512), {of_each}"
        assert tree.startswith("The value does not match batch, argument 1 of the step. Missing: batch/0, batch/1.")
        assert devices.startswith(f"Process {process} has none of the 2 devices.")


@pytest.mark.slow
def test_training_resumes_from_a_checkpoint_after_a_process_is_killed(tmp_path):
    """Go from two processes of two devices to four of one, after killing the coordinator."""
    address = f"127.0.0.1:{find_port()}"
    command = [sys.executable, EXAMPLE, "--directory", tmp_path, "--every", "2", "--steps", "100000"]
    processes = [
        subprocess.Popen(
            [*command, "--address", address, "--process", str(process)],
            env=make_environment(),
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
        kill(processes)
    done = max(int(path.parent.name.removeprefix("step-")) for path in tmp_path.glob("*/complete"))
    assert done >= 4, printed
    again = [*command[:-1], str(done + 2), "--processes", "4", "--devices", "1"]
    resumed = subprocess.run(again, env=make_environment(), capture_output=True, text=True, timeout=240)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert re.search(r"^The plan: 4 workers move [\d,]+ bytes in a step", resumed.stdout, re.MULTILINE)
    first, then = find_losses("".join(printed)), find_losses(resumed.stdout)
    assert [number for number, _, _ in first] == ["1", "2", "3", "4", "5"]
    assert [int(number) for number, _, _ in then] == [done + 1, done + 2]
    assert len({expected for _, expected, _ in first}) == 5, "the step does not train"
    assert all(ours == theirs for _, ours, theirs in first + then)


def find_losses(printed):
    return re.findall(r"^ +(\d+) +(\d+\.\d+) +(\d+\.\d+)$", printed, re.MULTILINE)


def read_until(process, pattern, seconds):
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


def make_devices(*hosts):
    return [SimpleNamespace(process_index=host, platform="cpu", id=n) for n, host in enumerate(hosts)]


def test_devices_are_listed_process_by_process(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: make_devices(0, 1, 0, 1, 0, 1))
    assert [device.id for device in list_devices(6)] == [0, 2, 4, 1, 3, 5]
    assert [device.id for device in list_devices(4)] == [0, 2, 1, 3]
    with pytest.raises(DeviceError, match=r"3 devices are asked for, and 2 processes have 3 \+ 3\. Each gives equally"):
        list_devices(3)
    with pytest.raises(DeviceError, match="8 devices are asked for, and JAX has 6"):
        list_devices(8)
    monkeypatch.setattr(jax, "devices", lambda: make_devices(0, 0, 0, 1))
    with pytest.raises(DeviceError, match=r"2 processes have 3 \+ 1"):
        list_devices(4)


def test_the_topology_follows_from_the_processes():
    found = find_topology(make_devices(0, 0, 0, 2, 2, 2))
    assert [(level.workers, level.bytes_per_second) for level in found.levels] == [(2, 25e9), (3, 1200e9)]
    for one_level in (make_devices(0, 0), make_devices(0, 1), make_devices(0, 1, 0, 1), make_devices(0, 0, 0, 1)):
        assert find_topology(one_level) is None


def test_the_topology_may_be_the_name_of_a_machine():
    x = jax.ShapeDtypeStruct((512, 256), "float32")
    plans = [
        tofu.jax.partition(lambda x: x @ x.T, 4, (x,), topology=topology).plan
        for topology in ("8xH100", make_topology(read_machine("8xH100"), 4))
    ]
    assert plans[0] == plans[1]
    assert plans[0].communication_seconds > 0
