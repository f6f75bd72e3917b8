"""Steps as the front end reads them: names, state, loops, what is refused."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.jax.in_numpy import plan
from tofu.errors import UnsupportedError
from tofu.graph import TensorKind
from tofu.jax import JAX, read_step
from tofu.jax.frontend.equations import Loop
from tofu.jax.frontend.trace import trace_step
from tofu.jax.frontend.versions import Line, find_line


def shape(*extents, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(extents, dtype)


def train(params, batch):
    """One step of gradient descent of a small network."""

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


def test_transformations_of_no_scope_have_no_name():
    """JAX 0.12 names them, as in `block/jvp()`."""
    step = jax.named_scope("block")(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) @ w)))
    graph = read_step(step, (shape(8, 8), shape(8, 8))).graph
    assert not [operator.name for operator in graph.operators if "()" in operator.name]
    assert "block/dot_general" in graph.operator_index


def test_state_that_comes_out_again_is_the_next_value():
    graph = read_step(train, (PARAMS, BATCH)).graph
    assert [graph.tensors[t].name for t in graph.next_values] == [
        "params/layer_0/bias",
        "params/layer_0/kernel",
        "params/layer_1/kernel",
    ]
    assert all(graph.tensors[a].shape == graph.tensors[b].shape for a, b in graph.next_values.items())
    assert len(graph.outputs) == 1


def test_a_step_is_planned_from_shapes_alone():
    partition = plan(read_step(train, (PARAMS, BATCH)), 4, JAX)
    assert partition.plan.optimality == "optimal"
    assert partition.plan.communication_bytes > 0
    assert max(partition.plan.worker_bytes) < partition.measure_whole() / 2


def test_a_plan_run_in_numpy_gives_what_jax_gives():
    source = read_step(train, (PARAMS, BATCH))
    made = plan(source, 4)
    rng = np.random.default_rng(0)
    arguments = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) / 8, x.dtype), (PARAMS, BATCH))
    tensors = source.graph.tensors
    values = {tensors[n].name: np.asarray(x, np.float64) for n, x in enumerate(jax.tree.leaves(arguments))}
    computed = source.native.step.compute_all(jax.tree.leaves(arguments))
    wanted = {t: computed[number] for number, t in source.native.tensor_of.items()}
    found = made.training.run_whole(values)
    assert len(found) == 4
    for output, ours in zip(made.training.program.outputs, found, strict=True):
        np.testing.assert_allclose(ours, wanted[output.tensor], rtol=1e-3, atol=1e-5)
    assert made.training.read_bytes == made.plan.communication_bytes


def test_the_step_as_read_computes_what_the_step_does():
    def step(state, x):
        (h, c), out = jax.lax.scan(lambda carry, y: ((jnp.tanh(carry[0] + y), carry[1] + 1), carry[0]), state, x)
        return (h, c), jax.checkpoint(lambda v: jnp.sin(v).sum())(out) + jnp.pad(h, (1, 2)).sum()

    arguments = (jnp.ones(4), jnp.float32(0)), jnp.arange(12.0).reshape(3, 4)
    flat, _ = trace_step(step, arguments)
    assert {e.primitive.name for e in flat.walk()}.isdisjoint({"scan", "pjit", "remat2"})
    for ours, theirs in zip(flat.compute(jax.tree.leaves(arguments)), jax.tree.leaves(step(*arguments)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_equations_that_a_checkpoint_computes_again_are_marked():
    function = jax.grad(lambda w, x: jax.checkpoint(lambda w: jnp.sin(x @ w).sum())(w))
    step, _ = trace_step(function, (shape(4, 4), shape(4, 4)))
    assert {e.checkpoint for e in step.walk() if e.primitive.name == "dot_general"} == {0}


def run_recurrence(w, x):
    return jax.lax.scan(lambda h, y: (jnp.tanh(h @ w + y),) * 2, x[0], x)[0].sum()


def test_the_body_of_a_scan_stands_once_whatever_its_length():
    short, long = (trace_step(jax.grad(run_recurrence), (shape(4, 4), shape(n, 2, 4)))[0] for n in (3, 100))
    assert len(list(short.walk())) == len(list(long.walk()))
    assert [item.length for item in long.equations if isinstance(item, Loop)] == [100, 100]


def test_nested_loops_and_loops_from_the_end_are_computed():
    def step(x):
        def row(total, line):
            inner, parts = jax.lax.scan(lambda a, v: (a + v, a * v), total, line, reverse=True)
            return inner, parts.sum() + total

        return jax.lax.scan(row, jnp.float32(0), x)

    x = jnp.arange(6.0).reshape(2, 3)
    flat, _ = trace_step(step, (x,))
    for ours, theirs in zip(flat.compute([x]), jax.tree.leaves(step(x)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    graph = read_step(step, (x,)).graph
    assert {tensor.times for tensor in graph.tensors} == {1, 2, 6}


def test_what_a_carry_never_changes_is_read_from_outside():
    step, _ = trace_step(
        lambda w, x: jax.lax.fori_loop(0, 5, lambda _, carry: (carry[0], carry[1] @ carry[0]), (w, x))[1],
        (shape(4, 4), shape(2, 4)),
    )
    (loop,) = (item for item in step.equations if isinstance(item, Loop))
    assert [carry.first for carry in loop.carries] == [step.inputs[1]]
    (product,) = (item for item in loop.equations if item.primitive.name == "dot_general")
    assert step.inputs[0] in product.inputs


def test_a_loop_moves_what_it_carries_in_each_step_and_what_it_only_reads_once():
    def plan_loop(length, **settings):
        step = lambda w, x: jax.lax.fori_loop(0, length, lambda _, h: jnp.tanh(h @ w), x)  # noqa: E731
        return plan(read_step(step, (shape(256, 256), shape(128, 256))), 4, JAX, **settings).plan

    two = plan_loop(2, hints={"w": [0, 0], "scan/dot_general": ["m0", "n1"]})
    four, six = (plan_loop(n, plan=two, strict_plan=False) for n in (4, 6))
    weight = 4 * (256 * 128 - 64 * 128) * 4  # of what each worker reads of it, it has a part
    carried = four.communication_bytes - two.communication_bytes
    assert six.communication_bytes - four.communication_bytes == carried
    assert carried > 0
    assert two.communication_bytes == weight + carried


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: jax.debug.print("{}", x) or x, r"The step has side effects"),
    ],
)
def test_what_is_refused(function, says):
    with pytest.raises(UnsupportedError, match=says):
        read_step(function, (shape(4),))


def test_the_line_of_a_call_is_shown_where_that_of_an_equation_is_unknown():
    (equation,) = jax.make_jaxpr(lambda x: jnp.sin(x))(1.0).eqns
    known = find_line(equation)
    assert re.fullmatch(r".*test_read_step\.py:\d+", str(known))
    assert str(Line(None, around=Line(None, around=known))) == str(known)
    assert str(Line(None)) == "an unknown line"


def test_a_step_is_a_function():
    with pytest.raises(UnsupportedError, match="A step is a function of arrays, not 3"):
        read_step(3, ())
