"""`simulate`, `advise` and `calibrate` of the command line."""

import json

import pytest
from click.testing import CliRunner

from tests.models.plain import mlp
from tofu.command_line.main import main
from tofu.mxnet.calibration import calibrate as calibration
from tofu.plan import Plan
from tofu.simulation import read_machine


@pytest.fixture
def model(tmp_path):
    case = mlp()
    path = tmp_path / "mlp-symbol.json"
    case.symbol.save(str(path))
    shapes = [f"{name}:{','.join(map(str, shape))}" for name, shape in case.shapes.items()]
    return [str(path), *(part for shape in shapes for part in ("--shape", shape))]


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_simulate_prints_the_step_and_writes_its_trace(model, tmp_path):
    trace, plot = tmp_path / "step.json", tmp_path / "step.png"
    result = run(
        "simulate", *model, "--workers", "4", "--machine", "8xV100", "--trace", str(trace), "--plot", str(plot)
    )
    assert result.exit_code == 0, result.output
    assert result.output.startswith("4 workers on 8 x V100")
    assert json.loads(trace.read_text())["traceEvents"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_simulate_takes_one_device_too(model):
    result = run("simulate", *model, "--workers", "1", "--machine", "8xV100")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("1 worker on 8 x V100")


def test_advise_prints_a_table_and_a_verdict(model, tmp_path):
    saved = tmp_path / "plan.json"
    result = run("advise", *model, "--machine", "8xV100", "--over", "2", "--save", str(saved))
    assert result.exit_code == 0, result.output
    assert "data parallelism" in result.output
    assert "Do not partition" in result.output or Plan.from_json(saved.read_text()).workers == 2
    assert "Train on" in result.output or not saved.exists()


def test_advise_says_that_there_is_no_plan_to_save(model, tmp_path):
    saved = tmp_path / "plan.json"
    result = run("advise", *model, "--machine", "p2.8xlarge", "--over", "2", "--save", str(saved))
    assert "Do not partition" in result.output
    assert f"There is no plan to save: {saved} was not written." in result.output
    assert not saved.exists()


def test_advise_refuses_a_hint_that_nothing_fits(model):
    result = run("advise", *model, "--machine", "8xV100", "--over", "2", "--hint", "fc0_weigth=0")
    assert result.exit_code == 1
    assert "fc0_weigth: the graph has no such operator or tensor" in result.output
    assert "partition:" not in result.output


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--workers", "4"), "--workers"),
        (("--memory-limit", "1MB"), "--memory-limit"),
        (("--workers", "4", "--topology", "1e9,2e9"), "--workers, --topology"),
        (("--hint", "fc1_weight=0,1"), "--hint fc1_weight=.. for single rounds"),
    ],
    ids=str,
)
def test_advise_refuses_what_it_decides(model, given, named):
    result = run("advise", *model, "--machine", "8xV100", "--over", "2", *given)
    assert result.exit_code == 1
    assert f"so it does not take {named}. Leave it out. --over 4" in result.output


def test_an_unknown_machine_is_one_message(model):
    result = run("advise", *model, "--machine", "nowhere.json")
    assert result.exit_code == 1
    assert "There is no machine 'nowhere.json'" in result.output


def test_calibrate_writes_a_machine_that_simulate_reads(model, tmp_path, monkeypatch):
    """What is measured stands in for the two measuring programs, which take a minute."""
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
    monkeypatch.setattr(calibration, "_run", measured.__getitem__)
    path = tmp_path / "here.json"
    result = run("calibrate", "--output", str(path))
    assert result.exit_code == 0, result.output
    machine = read_machine(path)
    assert machine.processors == 2.0
    assert machine.rates.measured["FullyConnected"].error < 1e-3
    assert run("simulate", *model, "--workers", "2", "--machine", str(path)).exit_code == 0
