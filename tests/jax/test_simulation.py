import jax
import jax.numpy as jnp
import pytest

import tofu
import tofu.jax
from tofu.errors import TofuError, UnsupportedError
from tofu.simulation.advise import DATA_PARALLEL
from tofu.simulation.simulate import write_one_device_program

WEIGHT, BATCH = jax.ShapeDtypeStruct((2048, 2048), jnp.float32), jax.ShapeDtypeStruct((4096, 2048), jnp.float32)
WEIGHT_BYTES, BATCH_BYTES = 4 * 2048 * 2048, 4 * 4096 * 2048


def step(weight, batch):
    gradient = jax.grad(lambda weight: (jnp.tanh(batch @ weight) ** 2).sum())(weight)
    return weight - 0.1 * gradient


def find_kernels(function, *arguments, workers=1):
    partition = tofu.jax.partition(function, max(workers, 2), arguments).partition
    program = write_one_device_program(partition.task) if workers == 1 else partition.program
    return {program.graph.operators[n].name: size for n, size in program.kernel_bytes.items()}


def test_fused_operators_are_one_kernel():
    assert list(find_kernels(lambda x: jnp.tanh(x * 2 + 1).reshape(-1) - 3, BATCH).values()) == [2 * BATCH_BYTES]
    found = find_kernels(lambda x: x @ x + 1, WEIGHT)
    assert sorted(found.values()) == [2 * WEIGHT_BYTES, 2 * WEIGHT_BYTES]
    found = find_kernels(lambda x: (jnp.tanh(x) * 2, jnp.tanh(x) * 3), BATCH)
    assert list(found.values()) == [2 * BATCH_BYTES] * 2
    shared = find_kernels(lambda x: [y := jnp.tanh(x), y * 2, y * 3], BATCH)
    assert list(shared.values()) == [2 * BATCH_BYTES] * 3  # costly operators are computed once


def test_simulate_and_advise():
    one, four = tofu.simulate(step, (WEIGHT, BATCH), "8xH100"), tofu.jax.partition(step, 4, (WEIGHT, BATCH))
    found = tofu.simulate(four, "8xH100")
    assert (one.workers, found.workers, found.samples) == (1, 4, 4096)
    assert found.seconds < one.seconds
    assert "updates" not in str(found)
    assert one.worker_bytes[0] > max(found.worker_bytes) > 0
    assert found.worker_bytes == (four.memory_report().worker.needed_bytes,) * 4
    advice = tofu.advise(step, (WEIGHT, BATCH), "8xH100", workers=[4])
    assert {option.workers for option in advice.options} == {1, 4}
    assert advice.best.throughput == max(option.throughput for option in advice.options)


def test_one_device_is_simulated_as_written_and_several_in_blocks():
    def accumulate(batch):
        return jax.lax.cumsum(batch, 0) * 2

    def list_names(simulation):
        return {operator.name for operator in simulation.program.graph.operators}

    one = tofu.simulate(accumulate, (BATCH,), "8xH100")
    advice = tofu.advise(accumulate, (BATCH,), "8xH100", workers=[4], hints={"batch": 0})
    found = {option.workers: option.simulation for option in advice.options if option.name != DATA_PARALLEL}
    assert list_names(one) == list_names(found[1]) == {"cumsum", "mul"}
    assert found[1].seconds == one.seconds
    assert list_names(found[4]) > {"cumsum/reshape", "cumsum/cumsum"}


def test_wrong_calls_are_refused():
    with pytest.raises(UnsupportedError, match=r'as in tofu\.simulate\(step, \(state, batch\), "8xH100"\)'):
        tofu.simulate(step, "8xH100")
    with pytest.raises(UnsupportedError, match="has its plan already"):
        tofu.advise(tofu.jax.partition(step, 4, (WEIGHT, BATCH)), (WEIGHT, BATCH), "8xH100")
    with pytest.raises(TofuError, match="8xT4"):
        tofu.simulate(step, (WEIGHT, BATCH), "8xT4")
