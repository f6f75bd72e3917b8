from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tofu.errors import UnsupportedError
from tofu.graph import TensorKind
from tofu.jax import read_step
from tofu.jax.frontend.equations import Loop
from tofu.jax.frontend.trace import trace_step
from tofu.jax.planning import plan_step, read_settings


def shape(*extents, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(extents, dtype)


def train(params, batch):

    def loss(params):
        with jax.named_scope("mlp"):
            hidden = jax.nn.relu(batch["x"] @ params["layer_0"]["kernel"] + params["layer_0"]["bias"])
        return jnp.mean((hidden @ params["layer_1"]["kernel"] - batch["y"]) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


PARAMS = {"layer_0": {"kernel": shape(512, 256), "bias": shape(256)}, "layer_1": {"kernel": shape(256, 128)}}
BATCH = {"x": shape(16, 512), "y": shape(16, 128)}


def test_names_are_paths_and_scopes():
    graph = read_step(train, (PARAMS, BATCH)).graph
    names = [t.name for t in graph.tensors if t.kind is not TensorKind.INTERMEDIATE]
    assert names == ["params/layer_0/bias", "params/layer_0/kernel", "params/layer_1/kernel", "batch/x", "batch/y"]
    products = [operator.name for operator in graph.operators if operator.name.endswith("dot_general")]
    assert products[:2] == ["jvp(mlp)/dot_general", "dot_general"]
    assert products[-1] == "transpose(jvp(mlp))/dot_general"


def test_returned_state_is_the_next_value():
    graph = read_step(train, (PARAMS, BATCH)).graph
    assert [graph.tensors[t].name for t in graph.next_values] == [
        "params/layer_0/bias",
        "params/layer_0/kernel",
        "params/layer_1/kernel",
    ]
    assert all(graph.tensors[a].shape == graph.tensors[b].shape for a, b in graph.next_values.items())
    assert len(graph.outputs) == 1


def test_steps_are_planned_from_shapes():
    partition = plan_step(read_step(train, (PARAMS, BATCH)), read_settings(4, {"cache": False}))
    assert partition.plan.optimality == "optimal"
    assert partition.plan.communication_bytes > 0
    assert max(partition.plan.worker_bytes) < partition.measure_whole() / 2
    with pytest.raises(UnsupportedError, match="The step has side effects"):
        read_step(lambda x: jax.debug.print("{}", x) or x, (shape(4),))
    with pytest.raises(UnsupportedError, match="A step is a function of arrays, not 3"):
        read_step(3, ())


def add_and_multiply(total, value):
    return total + value, total * value


def test_the_step_as_read_computes_the_same():
    def step(state, x):
        (h, c), out = jax.lax.scan(lambda carry, y: ((jnp.tanh(carry[0] + y), carry[1] + 1), carry[0]), state, x)
        nested = jax.lax.scan(
            lambda total, row: (jax.lax.scan(add_and_multiply, total, row, reverse=True)[0], total), 0.0, x
        )
        return (h, c), nested, jax.checkpoint(lambda v: jnp.sin(v).sum())(out) + jnp.pad(h, (1, 2)).sum()

    arguments = (jnp.ones(4), jnp.float32(0)), jnp.arange(12.0).reshape(3, 4)
    flat, _ = trace_step(step, arguments)
    assert {e.primitive.name for e in flat.walk()}.isdisjoint({"scan", "pjit", "remat2"})
    for ours, theirs in zip(flat.compute(jax.tree.leaves(arguments)), jax.tree.leaves(step(*arguments)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def run_recurrence(w, x):
    return jax.lax.scan(lambda h, y: (jnp.tanh(h @ w + y),) * 2, x[0], x)[0].sum()


def test_the_body_of_a_scan_is_read_once():
    short, long = (trace_step(jax.grad(run_recurrence), (shape(4, 4), shape(n, 2, 4)))[0] for n in (3, 100))
    assert len(list(short.walk())) == len(list(long.walk()))
    assert [item.length for item in long.equations if isinstance(item, Loop)] == [100, 100]


@pytest.mark.parametrize("step", [lambda x: jnp.roll(x, 1, 0), lambda x: x.at[:-1].set(x[1:])])
def test_masks_of_shifts_are_computed_and_not_stored(step):
    read, _ = trace_step(step, (shape(64, 8),))
    assert not read.constants


def test_unchanged_carries_are_read_from_outside():
    step, _ = trace_step(
        lambda w, x: jax.lax.fori_loop(0, 5, lambda _, carry: (carry[0], carry[1] @ carry[0]), (w, x))[1],
        (shape(4, 4), shape(2, 4)),
    )
    (loop,) = (item for item in step.equations if isinstance(item, Loop))
    assert [carry.first for carry in loop.carries] == [step.inputs[1]]
    (product,) = (item for item in loop.equations if item.primitive.name == "dot_general")
    assert step.inputs[0] in product.inputs


def test_loops_move_carries_in_each_iteration_and_constants_once():
    def plan_loop(length, **settings):
        step = lambda w, x: jax.lax.fori_loop(0, length, lambda _, h: jnp.tanh(h @ w), x)  # noqa: E731
        source = read_step(step, (shape(256, 256), shape(128, 256)))
        return plan_step(source, replace(read_settings(4, {"cache": False}), **settings)).plan

    two = plan_loop(2, hints={"w": [0, 0], "scan/dot_general": ["m0", "n1"]})
    four, six = (plan_loop(n, plan=two, strict_plan=False) for n in (4, 6))
    weight = 4 * (256 * 128 - 64 * 128) * 4
    carried = four.communication_bytes - two.communication_bytes
    assert six.communication_bytes - four.communication_bytes == carried
    assert carried > 0
    assert two.communication_bytes == weight + carried
