import json
import os
import subprocess
import sys

from tofu.mxnet.calibration.calibrate import PROGRAM_ENVIRONMENTS
from tofu.mxnet.calibration.kernels import RecordedCase, match_events, read_events
from tofu.mxnet.calibration.models import PERCEPTRONS, _build_perceptron, list_cases, list_steps
from tofu.mxnet.planning import plan_task, read_trained
from tofu.planning.settings import Settings
from tofu.simulation.kernels import FETCH

SCRIPT = """
import sys
from tofu.mxnet.calibration import kernels
kernels.list_cases = lambda: [case for number, case in enumerate(kernels_cases()) if number < 2]
from tofu.mxnet.calibration.models import list_cases as kernels_cases
kernels.main(sys.argv[1])
"""


def test_cases_cover_one_device_and_several():
    cases = list(list_cases())
    assert {case.workers for case in cases} == {1, 2, 4}
    assert {case.workers for case in list_steps()} == {1, 2, 4}


def test_a_measuring_process_times_every_node(tmp_path):
    path = tmp_path / "samples.json"
    environment = {**os.environ, **PROGRAM_ENVIRONMENTS["kernels"]}
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, env=environment, capture_output=True)
    samples = json.loads(path.read_text())
    kinds = {kind for kind, *_ in samples}
    assert {"FullyConnected", "Activation(tanh)", "_backward_FullyConnected", FETCH} <= {
        kind.split(" of one")[0] for kind in kinds
    }
    assert all(seconds >= 0 for *_, seconds in samples)
    assert any(seconds > 0 for *_, seconds in samples)


def make_events(path, kernels):
    events = [{"ph": "M", "pid": 0, "args": {"name": "cpu/0"}}, {"ph": "M", "pid": 1, "args": {"name": "cpu/1"}}]
    for device, name, began, took in kernels:
        for phase, time in (("B", began), ("E", began + took)):
            events.append({"ph": phase, "pid": device, "tid": 1, "name": name, "ts": time})
    path.write_text(json.dumps({"traceEvents": events}))


def test_the_fastest_step_counts_and_unmatched_operators_are_left_out(tmp_path):
    """The activation ran once too often."""
    symbol, shapes = _build_perceptron(*PERCEPTRONS[0])
    program = plan_task(read_trained(symbol, shapes, Settings(workers=2, cache=False))).program
    layers = sum(
        program.graph.operators[node.id].op == "FullyConnected" and node.worker == 0
        for node in program.nodes
        if node.kind == 1
    )
    kernels = [
        (0, "_tofu_clone_FullyConnected", 100 * step + 10 * n, 5 - step) for step in (1, 2) for n in range(layers)
    ]
    kernels += [(0, "Activation", 100, 1)]
    make_events(tmp_path / "events.json", kernels)
    samples = list(match_events(RecordedCase(program, [(100, 190), (200, 290)]), read_events(tmp_path / "events.json")))
    assert [round(1e6 * sample.seconds) for sample in samples] == [3] * layers
    assert all(sample.kind.startswith("FullyConnected") for sample in samples)
