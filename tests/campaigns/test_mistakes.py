"""Mistakes of new users raise one error that names the remedy, and leave the model unchanged."""

from __future__ import annotations

import shlex
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tomli
from click.testing import CliRunner

import tofu
from tofu.command_line.main import main as command_line

import mxnet as mx  # isort: skip  made importable by Tofu

LONGEST_MESSAGE = 1500
CPP_WORDS = ("Traceback", "src/", ".cc:", "Check failed")
MISTAKES = {
    f"{path.stem}-{number}": (case["code"], case["remedy"])
    for path in sorted((Path(__file__).parent / "mistake_cases").glob("*.toml"))
    if path.stem != "jax" or find_spec("jax") is None
    for number, case in enumerate(tomli.loads(path.read_text())["mistakes"])
}


def build_model():
    net = mx.sym.Variable("data")
    for layer, width in enumerate((18, 14)):
        net = mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{layer}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{layer}")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10, name="out"), name="softmax")


def make_batch(number):
    rng = np.random.RandomState(number)
    data, label = rng.uniform(-1, 1, (12, 17)), rng.randint(0, 10, 12)
    return mx.io.DataBatch([mx.nd.array(data, dtype="float64")], [mx.nd.array(label, dtype="float64")])


def train(module, first, last):
    for number in range(first, last):
        module.forward_backward(make_batch(number))
        module.update()
    return module


def start_module():
    module = tofu.mod.Module(build_model(), ngpus=4)
    shapes = {"data": (12, 17), "softmax_label": (12,)}
    data, label = (mx.io.DataDesc(name, shape, "float64") for name, shape in shapes.items())
    module.bind([data], [label])
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    return train(module, 0, 2)


def read_parameters(module):
    return {name: value.asnumpy() for group in module.get_params() for name, value in group.items()}


def read_state(names):
    """Return everything that a failed call must not change."""
    arrays = {**read_parameters(names["module"]), "net": np.array(names["net"].tojson())}
    arrays |= {name: array.asnumpy() for name, array in names["executor"].arg_dict.items()}
    return arrays | {"output of the block": names["block"](mx.nd.ones((12, 17))).asnumpy()}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Models in every state, shared by all mistakes. In the end, the module trains as if none had been made."""
    folder = tmp_path_factory.mktemp("mistakes")
    net = build_model()
    net.save(str(folder / "model-symbol.json"))
    (folder / "plan.json").write_text(tofu.partition(net, 2, data=(12, 17)).plan.to_json())
    symbol = tofu.partition(net, 2)
    block = mx.gluon.nn.Dense(10, in_units=17, prefix="dense_")
    block.initialize(mx.init.One())
    names = {"tofu": tofu, "mx": mx, "np": np, "net": net, "symbol": symbol, "folder": folder, "batch": make_batch(0)}
    names["block"] = tofu.gluon.partition(block, ngpus=2)
    names["executor"] = symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(12,))
    names["module"] = start_module()
    names["before"] = read_state(names)
    yield names
    after, undisturbed = (read_parameters(train(module, 2, 4)) for module in (names["module"], start_module()))
    assert all(np.array_equal(after[name], value) for name, value in undisturbed.items())


def find_message(code, names):
    """Make the mistake and return the message. Fail if Tofu does not refuse it."""
    if code.startswith("$"):
        _, *arguments = shlex.split(code.partition(" -m ")[2])
        result = CliRunner().invoke(command_line, arguments, prog_name="python -m tofu")
        assert isinstance(result.exception, SystemExit), result.output
        return result.output
    message, is_tofu_error = "no error", False
    try:
        exec(code, dict(names))
    except (tofu.TofuError, AttributeError, ImportError) as error:  # pytest.raises would keep files of the frame open
        message, is_tofu_error = str(error), isinstance(error, tofu.TofuError)
    assert is_tofu_error or "'tofu" in message or "JAX" in message
    return message


@pytest.mark.parametrize("name", MISTAKES)
def test_message_names_the_remedy_and_nothing_is_lost(names, name, monkeypatch):
    code, remedy = MISTAKES[name]
    monkeypatch.chdir(names["folder"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = find_message(code, names)
    assert remedy in message
    assert len(message) <= LONGEST_MESSAGE
    assert not [word for word in CPP_WORDS if word in message]
    after = read_state(names)
    assert [key for key, value in names["before"].items() if not np.array_equal(after[key], value)] == []
