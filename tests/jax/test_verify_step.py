import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

from tofu.command_line.main import main
from tofu.compare.agreement import WIDER
from tofu.errors import TofuError
from tofu.jax.backend.spmd import SpmdProgram
from tofu.jax.engine import JAX
from tofu.jax.planning import read_settings
from tofu.jax.verify import step as verification
from tofu.jax.verify.step import verify_step

FILE = """
import jax
import jax.numpy as jnp

def step(state, tokens):
    loss = lambda table: (jnp.tanh(table[tokens]) ** 2).mean()
    value, gradient = jax.value_and_grad(loss)(state["table"])
    return {"table": state["table"] - gradient, "count": state["count"] + 1}, value

def example_args():
    state = {"table": jax.ShapeDtypeStruct((512, 256), "float32"), "count": jax.ShapeDtypeStruct((), "int32")}
    return state, jax.ShapeDtypeStruct((64, 16), "int32")
"""


def verify(step, *arguments, workers=4, **options):
    return verify_step(step, arguments, read_settings(workers, {}), JAX, **options)


def test_the_command_verifies_a_file(tmp_path):
    (tmp_path / "train.py").write_text(FILE)
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "train.py:step"), "--workers", "4"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("4 workers agree with one device: 3 tensors")
    assert "float64" in result.output
    assert WIDER in result.output
    own = CliRunner().invoke(main, ["verify", str(tmp_path / "train.py:step"), "--workers", "4", "--dtype", "float32"])
    assert (own.exit_code, WIDER in own.output) == (0, False), own.output
    refused = CliRunner().invoke(main, ["verify", str(tmp_path / "train.py"), "--grad-req", "add"])
    assert (refused.exit_code, "--grad-req: for an MXNet symbol only" in refused.output) == (1, True)


def test_a_wrong_number_fails_the_command(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(FILE)
    run = SpmdProgram.compile
    monkeypatch.setattr(SpmdProgram, "compile", lambda *given: spoil(run(*given)))
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "train.py"), "--workers", "4"])
    assert result.exit_code == 1
    assert result.output.startswith("WRONG: result result/0/table differs by 1.0e-0"), result.output


def spoil(run):
    def spoiled(*leaves):
        return [x * (1 + 1e-6) if x.ndim == 2 else x for x in run(*leaves)]

    spoiled.lower = run.lower
    return spoiled


def test_explicit_types_are_kept():
    def step(x):
        half = (x @ x.T).astype(jnp.bfloat16)
        return jax.lax.dot(half, jnp.ones((64, 64), jnp.bfloat16)).astype(jnp.float32)

    found = verify(step, jax.ShapeDtypeStruct((64, 512), jnp.float32))
    assert found.agrees
    ones = np.ones((512, 512), np.float32)
    with pytest.raises(TypeError, match="same dtypes"):
        verify(lambda x: jax.lax.add(x, ones), ones, dtype="float64")


def test_all_kinds_of_leaves():
    def step(state, x):
        masked = jnp.where(x > 0.1, x, -jnp.inf)
        return {**state, "seen": state["seen"] + 1}, state["activation"](x) + 2j * x, masked, (x > 0.1).sum()

    state = {"activation": jnp.tanh, "name": "dense", "seen": jnp.zeros((0, 3))}
    found = verify(step, state, jax.ShapeDtypeStruct((255, 257), jnp.float32), workers=3)
    assert (found.agrees, found.excused, len(found.training)) == (True, {}, 4)
    found = verify(lambda x: (jnp.log(-x), x + 1), jax.ShapeDtypeStruct((256, 256), jnp.float32))
    assert (found.agrees, found.excused) == (True, {"result/0": "one device gives no numbers"})


@pytest.mark.parametrize(
    ("ours", "theirs", "is_wrong"),
    [
        ([1 + 2j], [1 + 3j], True),
        ([-np.inf, 1.0], [-np.inf, 1.0], False),
        ([np.inf, 1.0], [-np.inf, 1.0], True),
        ([0.0, 1.0], [np.nan, 1.0], True),
        ([1], [2], True),
        ([], [], False),
    ],
)
def test_differences_are_found(ours, theirs, is_wrong):
    arrays = map(verification._as_numbers, (np.array(ours), np.array(theirs)))
    assert (verification._find_error(*arrays) > 0.1) == is_wrong


def test_steps_larger_than_memory_are_refused(monkeypatch):
    monkeypatch.setattr(verification, "read_free_bytes", lambda: 1000)
    with pytest.raises(TofuError, match=r"needs about .* and 1000 B of memory are free\. Name smaller arguments"):
        verify(lambda x: x + 1, jax.ShapeDtypeStruct((256, 256), jnp.float32))
