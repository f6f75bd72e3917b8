from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

import tofu.jax
from tests.jax.comparison import check_step
from tests.jax.kernels.attention import make_attention, make_step, plain_attention, run_backward, run_forward
from tofu.errors import DescriptionError, UndescribedOperatorError, UnsupportedError
from tofu.tdl import Opaque

HEADS = "b h _ _, b h _ _, b h _ _ -> b h _ _"
attend_part = Opaque()


def by_formula(q, k, v):
    return lambda b, h, i, d: attend_part(q[b, h, i, :], k[b, h, :, :], v[b, h, :, :])[d]


def find_axes(made, name):
    return {axis for operator, axes in made.plan.operators.items() if name in operator for axis in axes} - {None}


@pytest.mark.parametrize(("description", "workers"), [(HEADS, 3), (by_formula, 8)])
def test_a_described_function_is_one_operator(description, workers):
    attention = tofu.jax.describe(description, name="attention")(plain_attention)
    step, *arguments = make_step(attention, heads=8)
    made = check_step(step, workers, *arguments)
    assert find_axes(made, "attention") <= {"b", "h"}
    assert sum("attention" in name for name in made.plan.operators) == 2
    plain, *_ = make_step(plain_attention, heads=8)
    assert made.plan.communication_bytes == tofu.jax.partition(plain, workers, arguments).plan.communication_bytes


@pytest.mark.parametrize(
    "options", [{"wrap": jax.checkpoint}, {"scans": True, "wrap": partial(jax.checkpoint, prevent_cse=False)}]
)
def test_described_functions_in_loops_and_checkpoints(options):
    attention = tofu.jax.describe(HEADS, name="attention")(plain_attention)
    step, *arguments = make_step(attention, layers=2, **options)
    assert find_axes(check_step(step, 4, *arguments), "attention")


def test_forward_and_backward_kernels_have_their_own_descriptions():
    forward = tofu.jax.describe("b h _ _, b h _ _, b h _ _ -> b h _ _, b h _", name="forward")(run_forward)
    saved = "b h _ _, b h _ _, b h _ _, b h _ _, b h _, b h _ _ -> b h _ _, b h _ _, b h _ _"
    backward = tofu.jax.describe(saved, name="backward")(run_backward)
    step, *arguments = make_step(make_attention(forward, backward))
    made = check_step(step, 4, *arguments)
    assert find_axes(made, "forward") <= {"b", "h"} >= find_axes(made, "backward")
    assert not any("vjp" in name for name in made.plan.operators)


def test_a_described_function_keeps_its_own_gradient():
    @tofu.jax.describe("b _ -> b _")
    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda _, d_out: (7 * d_out,))
    step = lambda x: jax.grad(lambda x: jnp.sum(double(x)))(x) + double(x)  # noqa: E731
    check_step(step, 2, jnp.ones((4, 6)))


def test_second_derivatives_work_and_forward_mode_is_refused():
    described = tofu.jax.describe("b _, b _, () -> b _, b")(
        lambda x, mask, scale: (jnp.tanh(x * scale) * mask, mask.sum(1))
    )

    def find_loss(x, scale):
        result, count = described(x, mask, jnp.float32(2.0))
        return jnp.sum(scale * result**2) + count.sum()

    x, mask = jnp.linspace(-1, 1, 24).reshape(4, 6), jnp.ones((4, 6), jnp.int32)
    check_step(lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(jax.grad(find_loss)(x, 3.0))))(x), 2, x)
    with pytest.raises(UnsupportedError, match=r"at .*test_describe\.py:\d+ differentiates a function in forward mode"):
        tofu.jax.partition(lambda x: jax.jvp(lambda x: find_loss(x, 3.0), (x,), (x,)), 2, (x,))


def test_outside_of_a_planned_step_the_function_is_unchanged():
    described = tofu.jax.describe("b _ -> b _")(lambda x: jnp.sin(x))
    body = lambda carry, _: (jax.jit(described)(carry), None)  # noqa: E731
    step = lambda x: jax.lax.scan(body, x, None, length=2)[0]  # noqa: E731
    x = jnp.ones((4, 6))
    find_names = lambda: {e.primitive.name for e in jax.make_jaxpr(described)(x).eqns}  # noqa: E731
    jax.jit(step)(x)
    assert find_names() == {"sin"}
    assert find_axes(check_step(step, 2, x), "lambda")
    assert find_names() == {"sin"}
    assert "sin" in str(jax.make_jaxpr(step)(x))
    assert jax.grad(lambda x: described(x).sum())(x).shape == x.shape


def test_methods_take_arguments_by_name_and_numbers():
    class NormalizedLayer:
        @tofu.jax.describe("b _, _ -> b _")
        def scale(self, x, w, power=1):
            return x * w**power

    layer = NormalizedLayer()
    step = lambda x, w: layer.scale(x, w=w, power=2) + jax.grad(lambda w: layer.scale(x, w).sum())(w)  # noqa: E731
    check_step(step, 2, jnp.ones((4, 6)), jnp.arange(6.0))


def test_a_formula_reads_named_arguments():
    def describe_power(x, *, power=1):
        return lambda i, j: x[i, j] ** power

    raised = tofu.jax.describe(describe_power)(lambda x, power=1: x ** (power or 1))
    x = jnp.arange(1.0, 25.0).reshape(4, 6)
    assert raised.verify(x, power=3).is_verified
    check_step(lambda x: raised(x, power=2) + raised(x), 2, x)
    with pytest.raises(DescriptionError, match=r"power of .* takes numbers, strings and booleans"):
        tofu.jax.partition(lambda x: raised(x, power=None), 2, (x,))


def test_primitives_and_library_calls_need_a_description():
    primitive = Primitive("my_primitive")
    primitive.def_impl(jnp.sin)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, mlir.lower_fun(jnp.sin, multiple_results=False))
    x = jnp.ones((4, 6))
    check_step(tofu.jax.describe("b _ -> b _")(lambda x: primitive.bind(x)), 2, x)
    call = jax.ffi.ffi_call("no_such_library", jax.ShapeDtypeStruct((4, 6), jnp.float32))
    with pytest.raises(UndescribedOperatorError, match=r"describe(.|\n)*ffi_call, used by .*test_describe\.py:\d+"):
        tofu.jax.partition(lambda x: call(x) + 1, 2, (x,))
    described = tofu.jax.describe("b _ -> b _", name="library")(call)
    assert tofu.jax.partition(lambda x: described(x) + 1, 2, (x,)).plan.operators["library"] == ("b",)


Q = jax.ShapeDtypeStruct((2, 3, 4, 5), jnp.float32)


def attend(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(2, 3)) @ v


def attend_causally(q, k, v):
    i, j = jnp.arange(q.shape[2]), jnp.arange(k.shape[2])
    return jax.nn.softmax(jnp.where(i[:, None] >= j, q @ k.swapaxes(2, 3), -1e30)) @ v


def test_a_right_description_is_verified():
    report = tofu.jax.describe("b h i _, b h _ _, b h _ _ -> b h i _", name="attention")(attend).verify(Q, Q, Q)
    assert report.is_verified
    assert [(node.op, [strategy.axis for strategy in node.strategies]) for node in report.nodes] == [
        ("attention", ["b", "h", "i"]),
        ("attention_vjp", ["b", "h", "i"]),
    ]
    assert "split i      in 2, 3: concatenated, reduced, reduced" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "description", "problem"),
    [
        (attend, "b h _ _, b h j _, b h j _ -> b h _ _", "attention, split j: the parts are off by"),
        (attend, "b h i _, b h i _, b h i _ -> b h i _", "attention, split i: the parts are off by"),
        (attend, "b h _ d, b h _ d, b h _ d -> b h _ d", "attention, split d: the parts are off by"),
        (attend, lambda q, k, v: lambda b, h, i, d: q[b, h, i, d] * v[b, h, i, d] + 0 * k[b, h, i, d], "is off by"),
        (attend_causally, "b h i _, b h _ _, b h _ _ -> b h i _", "split i: the parts are off by"),
    ],
)
def test_a_wrong_description_is_found(function, description, problem):
    with pytest.raises(DescriptionError, match=problem):
        tofu.jax.describe(description, name="attention")(function).verify(Q, Q, Q)


def test_malformed_descriptions_are_refused():
    with pytest.raises(DescriptionError, match="is a rule or a formula in TDL, and not 3"):
        tofu.jax.describe(3)
    with pytest.raises(DescriptionError, match="is a decorator of functions, and was given 3"):
        tofu.jax.describe(HEADS)(3)
    wrong = tofu.jax.describe("b _ -> b _", name="wrong")(plain_attention)
    with pytest.raises(DescriptionError, match=r"The description of wrong is wrong: .* has 1 inputs of 2 dim"):
        tofu.jax.partition(wrong, 2, (Q, Q, Q))
    with pytest.raises(DescriptionError, match="An argument of type int32 is a shape"):
        wrong.verify(jax.ShapeDtypeStruct((2,), jnp.int32))
