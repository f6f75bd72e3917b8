import mxnet as mx
import pytest

import tofu
from tests.command_line.calls import run
from tofu.mxnet.planning import plan_task, read_trained
from tofu.pipeline import Observer, show_value
from tofu.planning.settings import Settings

PASSES = [
    *("read", "completed", "lowered", "strategies", "whole_strategies", "problem", "selected"),
    *("restored", "cost", "memory", "plan"),
]
WHEN_BOUND = ["program", "program-checked", "execution", "checked"]


@pytest.fixture
def symbol():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


class Recorder(Observer):
    def __init__(self):
        super().__init__()
        self.values = {}

    def __call__(self, name, value):
        self.values[name] = value
        return super().__call__(name, value)


def test_every_pass_is_reported_once_and_prints(symbol):
    observe = Recorder()
    partition = plan_task(read_trained(symbol, {"data": (4, 6)}, Settings(2), observe), observe)
    assert list(observe.values) == list(observe.seconds) == PASSES
    assert all(show_value(value) for value in observe.values.values())
    assert observe.values["plan"] is partition.plan
    assert min(observe.seconds.values()) >= 0


def test_tofu_print_selects_the_printed_passes(symbol, monkeypatch, capsys):
    monkeypatch.setenv("TOFU_PRINT", "lowered, plan")
    partition = tofu.partition(symbol, 2)
    partition.simple_bind(mx.cpu(), data=(4, 6))
    printed = capsys.readouterr().err
    assert [line.split()[1] for line in printed.splitlines() if line.startswith("--- ")] == ["lowered", "plan"]
    assert "fc_output: float32[4, 8] = FullyConnected(data, fc_weight, fc_bias)" in printed


@pytest.mark.parametrize("shown", [["program"], WHEN_BOUND])
def test_passes_that_run_when_a_model_is_bound_are_printed_at_planning(symbol, monkeypatch, capsys, shown):
    monkeypatch.setenv("TOFU_PRINT", ",".join(shown))
    partition = tofu.partition(symbol, 2, data=(4, 6))
    partition.simple_bind(mx.cpu(), data=(4, 6))
    printed = [line.split()[1] for line in capsys.readouterr().err.splitlines() if line.startswith("--- ")]
    assert printed[: len(shown)] == shown


def test_the_command_line_prints_timings(symbol, tmp_path):
    symbol.save(str(tmp_path / "model.json"))
    printed = run("plan", str(tmp_path / "model.json"), "--shape", "data:4,6", "--workers", "2", "--timings").output
    rows = [line.split() for line in printed.split("pass ")[1].splitlines()[1:] if line]
    assert [name for name, _ in rows] == [*PASSES, "all"]
    assert sum(float(seconds) for _, seconds in rows[:-1]) == pytest.approx(float(rows[-1][1]), abs=0.01)
