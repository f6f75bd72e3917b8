from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tests.models.jax.plain import STEPS
from tofu.errors import InfeasibleError
from tofu.jax.backend.buffers import find_overwritten, predict_temporaries
from tofu.jax.frontend.trace import trace_step
from tofu.jax.memory import measure_program, predict_worker, read_compiled

ADDRESS = 8  # bytes, in XLA's table of results
AS_OF_0_6 = pytest.mark.skipif(jax.__version_info__ >= (0, 7), reason="the XLA of 0.12 needs less than predicted")


@pytest.mark.parametrize(
    ("name", "workers", "replicate", "donated"),
    [(name, *[(2, "small"), (8, "free")][i in (1, 2)], [(), (0,)][i // 2]) for i, name in enumerate(STEPS)],
)
def test_arguments_are_exact_and_temporaries_within_25_percent(name, workers, replicate, donated):
    step, state, data = STEPS[name](jnp.float32)
    options = {"replicate": replicate, "search_seconds": 2}
    made = tofu.jax.partition(step, workers, (state, data), donate_argnums=donated, **options)
    report = made.memory_report(compile=True)
    assert report.worker.arguments_bytes == report.compiled.arguments_bytes
    results = len(jax.tree.leaves(state)) + 1
    assert report.worker.results_bytes + ADDRESS * results == report.compiled.results_bytes
    assert report.worker.overwritten_bytes == report.compiled.overwritten_bytes
    assert (report.compiled.overwritten_bytes > 0) == bool(donated)
    assert report.worker.temporaries_bytes == pytest.approx(report.compiled.temporaries_bytes, rel=0.25, abs=1024)
    if workers == 2:
        whole = read_compiled(jax.jit(step, donate_argnums=donated).lower(state, data).compile())
        assert report.one_device.arguments_bytes == whole.arguments_bytes
        assert report.one_device.temporaries_bytes == pytest.approx(whole.temporaries_bytes, rel=0.25)


def smooth(state, data):
    padded = jnp.pad(state, ((1, 1), (0, 0)))
    state = (padded[:-2] + padded[1:-1] + padded[2:]) @ data
    return jnp.roll(state, 5, 0), jnp.cumsum(state, 1), state[-1:]


def fill(state, data):
    state = jax.lax.dynamic_update_slice(state, data[:8], (data[0, 0].astype("int32"), 0))
    return state.at[3:].add(state[:-3]), jnp.concatenate([data, state])


STENCILS = {f.__name__: (f, jnp.ones((48, 48)), jnp.ones((48, 48))) for f in (smooth, fill)}


@pytest.mark.parametrize("workers", [2, 6, 8])
@pytest.mark.parametrize("name", [*STEPS, *STENCILS])
def test_one_worker_of_each_kind_tells_the_memory(name, workers):
    step, state, data = STENCILS[name] if name in STENCILS else STEPS[name](jnp.float32)
    made = tofu.jax.partition(step, workers, (state, data), replicate="free", search_seconds=2)
    partition = made.partition
    whole, one = measure_program(partition.training), predict_worker(partition.source.native, partition.choices)
    assert one.temporaries_bytes == pytest.approx(whole.temporaries_bytes, rel=0.01)  # tables of positions differ
    assert one == replace(whole, temporaries_bytes=one.temporaries_bytes)


def test_unread_arguments_are_counted_apart():
    def step(state, data):
        return jnp.tanh(state @ data["used"]), state.sum()

    shapes = jax.ShapeDtypeStruct((256, 256), "float32"), jax.ShapeDtypeStruct((512, 256), "float32")
    data = {"used": shapes[0], "unused": shapes[1]}
    made = tofu.jax.partition(step, 4, (shapes[0], data), donate_argnums=(0,))
    report = made.memory_report(compile=True)
    whole, worker, compiled = report.one_device, report.worker, report.compiled
    assert whole.arguments_bytes == 4 * (2 * 256 * 256 + 512 * 256) == 4 * worker.arguments_bytes
    assert worker.unread_bytes == 4 * 512 * 256 // 4 == worker.arguments_bytes - compiled.arguments_bytes
    assert worker.overwritten_bytes == 256 * 256
    assert report.fits(worker.needed_bytes)
    assert not report.fits(worker.needed_bytes - 1)
    assert report.fits("1 TB")
    with pytest.raises(tofu.PlanError, match="device_bytes 'much' is not a size"):
        report.fits("much")


def reshape_both(x, y, shape):
    return x.reshape(shape), y.reshape(shape)


def reduce_and_multiply(reduced, y, x):
    return reduced.reshape(100, 10, 10).sum(-1), y @ x


def multiply_twice(y, x):
    return y @ x @ x, jnp.sin(y) @ x


@pytest.mark.parametrize(
    ("function", "bytes_held"),
    [
        (lambda x: jnp.exp(x) * 2 + 1, 0),  # one fusion, whose result is the step's
        (lambda x: (x @ x) @ x, 40_000),  # the first product
        pytest.param(lambda x: ((x @ x) @ x).sum(), 80_000, marks=AS_OF_0_6),  # both at once
        (lambda x: jnp.tanh(x @ x) @ x, 40_000),  # written over the product
        (lambda x: ((x @ x) @ x).reshape(-1), 40_000),  # a reshape needs no buffer
        (lambda x: jnp.tanh((x @ x) @ x) @ x, 40_000),  # the result's buffer is used earlier
        (lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c) @ c, None), x, None, 3)[0], 80_000),
        (lambda x: reduce_and_multiply(jnp.exp(x @ x), x @ x, x), 40_000),  # the summed value is fused
        (lambda x: reduce_and_multiply(2 * (x @ x), x @ x, x), 40_000),
        (lambda x: multiply_twice((x @ x) + 1, x), 80_000),  # cheap values are computed again in fusions
        (
            lambda x: jnp.einsum("abi,abj->ij", *reshape_both(x, jnp.sin(x), (10, 10, 100))),
            80_000,
        ),  # one operand is transposed
        (
            lambda x: jnp.einsum("ahi,bhi->hab", *reshape_both(x @ x, x, (100, 10, 10))),
            80_000,
        ),  # both operands are transposed
        (lambda x: x @ jax.random.uniform(jax.random.key(0), x.shape), 120_008),  # two buffers of the random generator
    ],
)
def test_temporaries_of_small_programs(function, bytes_held):
    arguments = [jax.ShapeDtypeStruct((100, 100), "float32")]
    step, _ = trace_step(function, arguments)
    assert predict_temporaries(step) == bytes_held
    compiled = read_compiled(jax.jit(function).lower(*arguments).compile())
    assert compiled.temporaries_bytes == pytest.approx(bytes_held, abs=1000)


@pytest.mark.parametrize(
    ("function", "bytes_held"),
    [
        (lambda w, x: (w - x,), 0),  # written over the argument
        (lambda w, x: (w - x @ x, x @ w), 40_000),  # a copy of the argument, and the product in its place
        (lambda w, x: (w - (w @ x) @ w,), 80_000),  # its readers finish first
        pytest.param(
            lambda w, x: (w - (x @ x) @ x, (w @ x).sum()), 120_000, marks=AS_OF_0_6
        ),  # a copy, and two products
    ],
)
def test_temporaries_with_donated_arguments(function, bytes_held):
    arguments = [jax.ShapeDtypeStruct((100, 100), "float32")] * 2
    step, _ = trace_step(function, arguments)
    assert predict_temporaries(step, find_overwritten(step, [0])) == bytes_held
    compiled = read_compiled(jax.jit(function, donate_argnums=0).lower(*arguments).compile())
    assert compiled.temporaries_bytes == pytest.approx(bytes_held, abs=100)


def test_plans_above_the_memory_limit_are_marked(caplog):
    table = np.ones((512, 512), "float32")
    x = jax.ShapeDtypeStruct((512, 512), "float32")
    asked = (lambda x: x + table), 8, (x,)
    needed = tofu.jax.partition(*asked).memory_report().worker.needed_bytes
    over = tofu.jax.partition(*asked, memory_limit=needed - 1)
    assert over.plan.optimality.startswith("predicted to need")
    assert "within" not in over.plan.optimality
    assert "is predicted to need 384.0 KiB on a worker" in caplog.text
    assert f"`python -m tofu memory MODEL --device-memory {needed - 1}B` looks for a number of workers" in caplog.text
    assert tofu.jax.partition(*asked, memory_limit=needed).plan.optimality.startswith("the best within")
    donated = tofu.jax.partition(*asked, memory_limit=needed - 1, donate_argnums=0)
    assert donated.plan.optimality.startswith("the best within")
    caplog.clear()
    tofu.jax.partition(*asked, plan=tofu.jax.partition(*asked).plan, memory_limit=needed - 1)
    assert "is predicted to need" in caplog.text
    with pytest.raises(InfeasibleError, match="No plan over 8 workers fits"):
        tofu.jax.partition(*asked, memory_limit=needed // 2)
