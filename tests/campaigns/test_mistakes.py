"""Mistakes of new users raise one error that names the remedy, and leave the model unchanged.

A row of `mistake_cases/*.toml` has the code of a mistake, the error's class (by default TofuError), and parts of its
message.
"""

import shlex
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tomli
from click.testing import CliRunner

import tofu
from tests.models.plain import mlp
from tests.shared.module_runs import ModuleCase, batches, largest_error, model, parameters_of, start, train
from tofu.command_line.main import main as command_line

import mxnet as mx  # isort: skip  made importable by Tofu

LONGEST_MESSAGE = 1500
CPP_WORDS = ("Traceback", "src/", ".cc:", "Check failed")
MISTAKES = {
    f"{path.stem}-{number}": case
    for path in sorted((Path(__file__).parent / "mistake_cases").glob("*.toml"))
    if path.stem != "jax" or find_spec("jax") is None
    for number, case in enumerate(tomli.loads(path.read_text())["mistakes"])
}
ADAM, STEPS = ModuleCase("adam", {"learning_rate": 0.01}), batches(4)


def start_module():
    return start(tofu.mod.Module(model(), ngpus=4), ADAM)


def read_state(names):
    """Return everything that a failed call must not change."""
    arrays = {**parameters_of(names["module"]), "net": np.array(names["net"].tojson())}
    arrays |= {name: array.asnumpy() for name, array in names["executor"].arg_dict.items()}
    return arrays | {"output of the block": names["block"](mx.nd.ones((12, 17))).asnumpy()}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Models in every state. In the end, the module trains as if no mistake had been made."""
    folder = tmp_path_factory.mktemp("mistakes")
    net = mlp().symbol
    net.save(str(folder / "model-symbol.json"))
    (folder / "plan.json").write_text(tofu.partition(net, 2, data=(12, 17)).plan.to_json())
    symbol = tofu.partition(net, 2)
    block = mx.gluon.nn.Dense(10, in_units=17, prefix="dense_")
    block.initialize(mx.init.One())
    names = {"tofu": tofu, "mx": mx, "np": np, "net": net, "symbol": symbol, "folder": folder, "batch": STEPS[0]}
    names["block"] = tofu.gluon.partition(block, ngpus=2)
    names["executor"] = symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(12,))
    names["module"] = start_module()
    train(names["module"], STEPS[:2])
    names["before"] = read_state(names)
    yield names
    assert largest_error(train(names["module"], STEPS[2:]), train(start_module(), STEPS)) == 0


def find_message(code, names, error):
    if code.startswith("$"):
        _, *arguments = shlex.split(code.partition(" -m ")[2])
        result = CliRunner().invoke(command_line, arguments, prog_name="python -m tofu")
        assert isinstance(result.exception, SystemExit), result.output
        return result.output
    message = "no error"
    try:
        exec(code, dict(names))
    except error as caught:  # pytest.raises would keep files of the frame open
        return str(caught)
    except (AttributeError, ImportError) as caught:
        message = str(caught)
    assert "'tofu" in message or "JAX" in message
    return message


@pytest.mark.parametrize("name", MISTAKES)
def test_message_names_the_remedy_and_nothing_is_lost(names, name, monkeypatch):
    mistake = MISTAKES[name]
    assert mistake.keys() <= {"code", "error", "remedy"}
    assert not ("error" in mistake and mistake["code"].startswith("$")), "commands only print"
    monkeypatch.chdir(names["folder"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = find_message(mistake["code"], names, getattr(tofu, mistake.get("error", "TofuError")))
    remedies = mistake["remedy"]
    for remedy in [remedies] if isinstance(remedies, str) else remedies:
        assert remedy in message
    assert len(message) <= LONGEST_MESSAGE
    assert not [word for word in CPP_WORDS if word in message]
    after = read_state(names)
    assert [key for key, value in names["before"].items() if not np.array_equal(after[key], value)] == []
