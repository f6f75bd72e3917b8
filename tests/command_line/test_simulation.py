import json
import re

import mxnet as mx
import pytest

import tofu
from tests.command_line.calls import run
from tests.models.plain import mlp
from tofu.errors import InfeasibleError
from tofu.mxnet.calibration import calibrate as calibration
from tofu.simulation import read_machine
from tofu.simulation.machine import FOLDER


@pytest.fixture
def model(tmp_path):
    case = mlp()
    path = tmp_path / "mlp-symbol.json"
    case.symbol.save(str(path))
    shapes = [f"{name}:{','.join(map(str, shape))}" for name, shape in case.shapes.items()]
    return [str(path), *(part for shape in shapes for part in ("--shape", shape))]


def test_simulate_writes_a_trace_and_a_plot(model, tmp_path):
    trace, plot = tmp_path / "step.json", tmp_path / "step.png"
    result = run(
        "simulate", *model, "--workers", "4", "--machine", "8xV100", "--trace", str(trace), "--plot", str(plot)
    )
    assert result.exit_code == 0, result.output
    assert result.output.startswith("4 workers on 8 x V100")
    assert json.loads(trace.read_text())["traceEvents"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_advise_gives_whole_reasons_and_explains_its_table(tmp_path):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc")
    net.save(str(tmp_path / "fc-symbol.json"))
    result = run(
        "advise", str(tmp_path / "fc-symbol.json"), "--shape", "data:2,64", "--machine", "8xV100", "--over", "4"
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"^4 +data parallelism +- .*does not apply: see below$", result.output, re.MULTILINE)
    with pytest.raises(InfeasibleError) as reason:
        tofu.partition(net, 4, data=(2, 64), algorithm="data-parallel")
    first = str(reason.value).split(" Use ")[0]
    assert f"4 workers, data parallelism, does not apply: {first}" in result.output
    assert "\nRange: " in result.output
    assert "\nReplicas within memory: " in result.output


def test_calibrate_writes_a_machine_that_simulate_reads(model, tmp_path, monkeypatch):
    """Replace the two measuring programs, which take a minute."""
    kernels = [
        [kind, contracted, n, 12 * n, 2e-6 + 1e-9 * n + 1e-11 * contracted]
        for kind, contracted in (("FullyConnected", 10**6), ("Activation(relu)", 0), ("fetch", 0))
        for n in (10**3, 10**5, 10**6)
    ]
    engine = {
        "processors": 2.0,
        "call": 3e-6,
        "call_of_several": 2e-5,
        "step": 1e-3,
        "update_call": 3e-5,
        "update_byte": 1e-10,
    }
    measured = {"kernels": kernels, "engine": {**engine, "steps": [1.0] * len(list(calibration.list_steps()))}}
    monkeypatch.setattr(calibration, "_run_program", measured.__getitem__)
    path = tmp_path / "here.json"
    result = run("calibrate", "--output", str(path))
    assert result.exit_code == 0, result.output
    machine = read_machine(path)
    assert machine.processors == 2.0
    assert machine.rates.measured["FullyConnected"].error < 1e-3
    assert run("simulate", *model, "--workers", "2", "--machine", str(path)).exit_code == 0


def test_a_machine_is_a_topology(model, tmp_path):
    file = tmp_path / "here.json"
    file.write_text((FOLDER / "8xH100.json").read_text())
    outputs = [run("plan", *model, "--workers", "4", "--topology", name).output for name in ("8xh100", str(file))]
    assert re.search(r"on this interconnect \(.* at 1\.3 TiB/s \+ \d+ fetches of 6 us", outputs[0])
    assert outputs[0].splitlines()[1] == outputs[1].splitlines()[1]
