"""How long a step takes on a machine, and on how many devices it should run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import tofu
import tofu.jax
from tofu.command_line.main import main
from tofu.errors import TofuError, UnsupportedError
from tofu.simulation.simulate import emit_one_device

WEIGHT, BATCH = jax.ShapeDtypeStruct((2048, 2048), jnp.float32), jax.ShapeDtypeStruct((4096, 2048), jnp.float32)
WEIGHT_BYTES, BATCH_BYTES = 4 * 2048 * 2048, 4 * 4096 * 2048

FILE = """
import jax

def step(weight, batch):
    gradient = jax.grad(lambda weight: ((batch @ weight) ** 2).sum())(weight)
    return weight - 0.1 * gradient

def example_args():
    return jax.ShapeDtypeStruct((512, 512), "float32"), jax.ShapeDtypeStruct((64, 512), "float32")
"""


def step(weight, batch):
    gradient = jax.grad(lambda weight: (jnp.tanh(batch @ weight) ** 2).sum())(weight)
    return weight - 0.1 * gradient


def find_kernels(function, *arguments, workers=1):
    """By operator, the bytes of the kernels of a step on one device, or on each of several."""
    partition = tofu.jax.partition(function, max(workers, 2), arguments).partition
    program = emit_one_device(partition.task) if workers == 1 else partition.program
    return {program.graph.operators[n].name: size for n, size in program.kernel_bytes.items()}


def test_what_xla_fuses_is_one_kernel():
    assert list(find_kernels(lambda x: jnp.tanh(x * 2 + 1).reshape(-1) - 3, BATCH).values()) == [2 * BATCH_BYTES]
    found = find_kernels(lambda x: x @ x + 1, WEIGHT)
    assert sorted(found.values()) == [2 * WEIGHT_BYTES, 2 * WEIGHT_BYTES]
    found = find_kernels(lambda x: (jnp.tanh(x) * 2, jnp.tanh(x) * 3), BATCH)
    assert list(found.values()) == [2 * BATCH_BYTES] * 2
    shared = find_kernels(lambda x: [y := jnp.tanh(x), y * 2, y * 3], BATCH)
    assert list(shared.values()) == [2 * BATCH_BYTES] * 3  # what is costly is computed once


def test_what_is_fetched_is_in_memory():
    one = find_kernels(lambda x, y: (x * 2) @ y, WEIGHT, WEIGHT)
    each = find_kernels(lambda x, y: (x * 2) @ y, WEIGHT, WEIGHT, workers=4)
    assert set(one) <= set(each)
    assert all(each[name] < one[name] for name in one)


def test_a_step_and_a_partitioned_step():
    one, four = tofu.simulate(step, (WEIGHT, BATCH), "8xH100"), tofu.jax.partition(step, 4, (WEIGHT, BATCH))
    found = tofu.simulate(four, "8xH100")
    assert (one.workers, found.workers, found.samples) == (1, 4, 4096)
    assert found.seconds < one.seconds
    assert one.worker_bytes[0] > max(found.worker_bytes) > 0
    assert found.worker_bytes == (four.memory_report().worker.needed_bytes,) * 4


def test_advice():
    advice = tofu.advise(step, (WEIGHT, BATCH), "8xH100", workers=[4])
    assert {option.workers for option in advice.options} == {1, 4}
    assert advice.best.throughput == max(option.throughput for option in advice.options)
    assert tofu.jax.partition(step, 4, (WEIGHT, BATCH), plan=advice.best.plan).plan == advice.best.plan


def test_wrong_calls():
    with pytest.raises(UnsupportedError, match=r'as in tofu\.simulate\(step, \(state, batch\), "8xH100"\)'):
        tofu.simulate(step, "8xH100")
    with pytest.raises(UnsupportedError, match="has its plan already"):
        tofu.advise(tofu.jax.partition(step, 4, (WEIGHT, BATCH)), (WEIGHT, BATCH), "8xH100")
    with pytest.raises(TofuError, match="8xH200"):
        tofu.simulate(step, (WEIGHT, BATCH), "8xH200")


def test_commands(tmp_path):
    (tmp_path / "train.py").write_text(FILE)
    model = str(tmp_path / "train.py:step")
    simulated = CliRunner().invoke(main, ["simulate", model, "--workers", "4", "--machine", "8xH100"])
    assert simulated.exit_code == 0, simulated.output
    assert simulated.output.startswith("4 workers on 8 x H100")
    advised = CliRunner().invoke(
        main, ["advise", model, "--machine", "8xH100", "--over", "2", "--save", str(tmp_path / "plan.json")]
    )
    assert advised.exit_code == 0, advised.output
    assert "one device" in advised.output
    refused = CliRunner().invoke(main, ["simulate", model, "--machine", "8xH100", "--states", "2"])
    assert refused.exit_code == 1
    assert "--states: this is for an MXNet symbol" in refused.output
