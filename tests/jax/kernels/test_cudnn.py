"""Attention by cuDNN, planned without a GPU.

On CPUs, a reference in `jax.numpy` replaces the kernels.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from jax.interpreters import mlir

import tofu.jax
from tests.jax.comparison import assert_close
from tests.models.jax.plain import descend
from tofu.errors import UnsupportedError
from tofu.jax.frontend.equations import read_operand
from tofu.jax.verify.kernel_cases import attend

BATCH, LENGTH, HEADS, WIDTH = 4, 16, 4, 8
CASES = {
    "causal": {"is_causal": True},
    "grouped heads": {"kv_heads": 2},
    "bias": {"bias": (1, HEADS)},
    "bias of each sequence": {"fixed_bias": (BATCH, 1)},
    "lengths": {"lengths": True},
    "mask": {"mask": True},
}


def run_reference(parameters, q, k, v, bias, length):
    is_causal = parameters["mask_type"] in (cudnn.MaskType.CAUSAL, cudnn.MaskType.PADDING_CAUSAL)
    is_heads_first = parameters["layout"] == cudnn.AttentionLayout.BNTH.value
    given = (x.astype(jnp.float32) if x is not None and x.size else None for x in (q, k, v, bias))
    length = length if length.size else None
    return attend(*given, length, is_causal=is_causal, is_heads_first=is_heads_first, scale=parameters["scale"])


def run_forward(q, k, v, bias, q_length, kv_length, *rest, **parameters):
    result, saved = run_reference(parameters, q, k, v, bias, kv_length)
    return [result.astype(q.dtype), saved][: 1 + parameters["is_training"]]


def run_backward(q, k, v, bias, q_length, kv_length, *rest, **parameters):
    has_bias_gradient = parameters["variadic_args"][1]
    _, pull = jax.vjp(lambda *x: run_reference(parameters, *x, kv_length)[0], q, k, v, bias)
    return list(pull(rest[-1].astype(jnp.float32)))[: 3 + has_bias_gradient]


@pytest.fixture(scope="module", autouse=True)
def _kernels_on_cpus():
    for primitive, function in (
        (cudnn._dot_product_attention_fwd_p, run_forward),
        (cudnn._dot_product_attention_bwd_p, run_backward),
    ):
        mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=True), platform="cpu")


def make_step(is_causal=False, kv_heads=HEADS, bias=None, fixed_bias=None, lengths=False, mask=False, layout="BTNH"):
    random = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(random.normal(size=shape) / 8, jnp.bfloat16)  # noqa: E731
    width = HEADS * WIDTH
    params = {"q": draw(width, width), "k": draw(width, kv_heads * WIDTH), "v": draw(width, kv_heads * WIDTH)}
    if bias:
        params["bias"] = draw(*bias, LENGTH, LENGTH)
    other = draw(*fixed_bias, LENGTH, LENGTH) if fixed_bias else None
    count = jnp.asarray([16, 8, 12, 16], jnp.int32) if lengths else None

    def find_loss(params, x):
        q, k, v = ((x @ params[name]).reshape(BATCH, LENGTH, -1, WIDTH) for name in "qkv")
        keep = jnp.tril(jnp.ones((1, 1, LENGTH, LENGTH), bool)) if mask else None
        given = {"bias": params.get("bias", other), "mask": keep, "is_causal": is_causal}
        given |= {"query_seq_lengths": count, "key_value_seq_lengths": count, "implementation": "cudnn"}
        return jnp.mean(jax.nn.dot_product_attention(q, k, v, **given).astype(jnp.float32) ** 2)

    return descend(find_loss), params, draw(BATCH, LENGTH, width)


def run_on_one_device(step, *arguments):
    whole = tofu.jax.read_step(step, arguments).native.step
    values = whole.compute_all(jax.tree.leaves(arguments))
    return [read_operand(x, values) for x in whole.outputs]


@pytest.mark.parametrize(("case", "workers"), [*zip(CASES, (2, 3, 4, 8, 4, 2), strict=True)])
def test_attention_is_split_by_batch_and_heads(case, workers):
    step, params, x = make_step(**CASES[case])
    made = tofu.jax.partition(step, workers, (params, x))
    split = {axis for name, axes in made.plan.operators.items() if "dot_product" in name for axis in axes} - {None}
    assert split
    assert split <= {"batch", "heads"}
    assert_close(made(made.place(params), x), run_on_one_device(step, params, x), 2e-2, 2e-2)


@pytest.mark.parametrize("axis", ["batch", "heads"])
@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_each_axis_splits_each_layout(axis, layout):
    shape = (BATCH, LENGTH, HEADS, WIDTH) if layout == "BTNH" else (BATCH, HEADS, LENGTH, WIDTH)
    random = np.random.default_rng(0)
    q, k, v = (jnp.asarray(random.normal(size=shape), jnp.bfloat16) for _ in range(3))

    def step(q, k, v):
        attention = lambda *x: cudnn.dot_product_attention(*x, qkv_layout=layout).astype(jnp.float32)  # noqa: E731
        return jax.grad(lambda *x: jnp.sum(jnp.sin(attention(*x))), (0, 1, 2))(q, k, v)

    names = ["dot_product_attention_fwd_wrapper", "dot_product_attention_bwd_wrapper"]
    made = tofu.jax.partition(step, 4, (q, k, v), hints=dict.fromkeys(names, axis))
    assert_close(made(q, k, v), run_on_one_device(step, q, k, v), 2e-2, 2e-2)


def test_dropout_is_refused():
    q = jax.ShapeDtypeStruct((BATCH, LENGTH, HEADS, WIDTH), jnp.bfloat16)
    step = lambda q: cudnn.dot_product_attention(q, q, q, dropout_rate=0.5)  # noqa: E731
    with pytest.raises(UnsupportedError, match=r"at .*test_cudnn\.py:\d+ drops numbers by their positions"):
        tofu.jax.partition(step, 2, (q,))
