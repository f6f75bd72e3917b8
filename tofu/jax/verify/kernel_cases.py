"""Test cases for kernels: interpreted Pallas kernels, and cuDNN's attention, imitated without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import integers
from tofu.jax.kernels.call import KernelCall
from tofu.jax.kernels.cudnn import BACKWARD, FORWARD, find_attention_rule


def tile(kernel: Any, grid: tuple[int, ...], blocks: list[Any], out: Any, out_shape: tuple[int, ...]) -> Any:
    """Return a function that runs a Pallas kernel over a grid.

    A block is a pair: its shape, and a function that returns the block's position for a position in the grid.
    """

    def run(*arrays: Any) -> Any:
        specs = [pl.BlockSpec(*block) for block in blocks]
        result = jax.ShapeDtypeStruct(out_shape, arrays[0].dtype)
        call = pl.pallas_call(
            kernel, grid=grid, in_specs=specs, out_specs=pl.BlockSpec(*out), out_shape=result, interpret=True
        )
        return call(*arrays)

    return run


def add(x: Any, y: Any, out: Any) -> None:
    """Compute `sin(x) + y`."""
    out[...] = jnp.sin(x[...]) + y[...]


def attend_to_shared(q: Any, k: Any, v: Any, out: Any) -> None:
    """Compute the attention of one head."""
    out[...] = jax.nn.softmax(q[...] @ k[...].T) @ v[...]


def attend(
    q: Any, k: Any, v: Any, bias: Any, length: Any, *, is_causal: bool, is_heads_first: bool, scale: float = 1.0
) -> Any:
    """Compute attention and log-sum-exps as cuDNN does. `bias` and `length` may be None."""
    assert q.shape[-1] == k.shape[-1] == v.shape[-1]
    q, k, v = (x if is_heads_first else x.swapaxes(1, 2) for x in (q, k, v))
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = jnp.einsum("bhid,bhjd->bhij", q, k) * scale
    i, j = (jnp.arange(n) for n in scores.shape[2:])
    if bias is not None:
        scores = scores + bias
    if is_causal:
        scores = jnp.where(i[:, None] >= j, scores, -1e30)
    if length is not None:
        scores = jnp.where(j < length[:, None, None, None], scores, -1e30)
    result = jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores), v)
    if length is not None:
        result = jnp.where(i[:, None] < length[:, None, None, None], result, 0)
    return result if is_heads_first else result.swapaxes(1, 2), jax.nn.logsumexp(scores, -1)


def call_attention(q: Any, k: Any, v: Any, *optional_arrays: Any, is_heads_first: bool, has_bias: bool) -> Any:
    """Call attention and its gradient, as operators with cuDNN's names."""
    bias, length = (*optional_arrays, None)[:2] if has_bias else (None, (*optional_arrays, None)[0])
    shapes = [array.shape if array is not None else (0,) for array in (q, k, v, bias, length, length, *[None] * 4)]
    present_arrays = [array for array in (q, k, v, bias, length, length) if array is not None]

    def add_absent(some: Sequence[Any]) -> list[Any]:
        return [*some[:3], *(some[3:4] if has_bias else [None]), some[-1] if length is not None else None]

    run_attention = partial(attend, is_causal=True, is_heads_first=is_heads_first)

    def make_kernel(is_backward: bool, kernel: Any) -> KernelCall:
        rule = find_attention_rule(shapes, is_heads_first, is_backward, has_extra_result=not is_backward or has_bias)
        present_groups = [group for group, shape in zip(rule.inputs, shapes, strict=False) if 0 not in shape]
        rule = type(rule)((*present_groups, *rule.inputs[len(shapes) :]), rule.outputs)
        return KernelCall(BACKWARD if is_backward else FORWARD, kernel, rule)

    def differentiate(*operands: Any) -> Any:
        *inputs, statistics, result, cotangent = operands
        assert cotangent.shape == result.shape == inputs[0].shape
        assert statistics.shape[1:] == (
            inputs[0].shape[1 if is_heads_first else 2],
            inputs[0].shape[2 if is_heads_first else 1],
        )
        all_inputs = add_absent(inputs)
        differentiated = [0, 1, 2, 3][: 3 + has_bias]

        def attend_again(*some: Any) -> Any:
            return run_attention(*some, *all_inputs[len(differentiated) :])[0]

        return jax.vjp(attend_again, *(all_inputs[n] for n in differentiated))[1](cotangent)

    result, statistics = make_kernel(False, lambda *some: run_attention(*add_absent(some))).bind(*present_arrays)
    return make_kernel(True, differentiate).bind(*present_arrays, statistics, result, jnp.cos(result))


def attention(is_heads_first: bool = False, has_bias: bool = False) -> Any:
    """Return the function for an attention case."""
    return partial(call_attention, is_heads_first=is_heads_first, has_bias=has_bias)


CASES = [
    PrimitiveCase(
        "kernel, attention, shared heads",
        tile(
            attend_to_shared,
            (6,),
            [((None, 5, 3), lambda h: (h, 0, 0)), *[((None, 4, 3), lambda h: (h // 2, 0, 0))] * 2],
            ((None, 5, 3), lambda h: (h, 0, 0)),
            (6, 5, 3),
        ),
        (6, 5, 3),
        (3, 4, 3),
        (3, 4, 3),
    ),
    PrimitiveCase(
        "kernel under vmap",
        jax.vmap(tile(add, (3,), [((2, 5), lambda i: (i, 0))] * 2, ((2, 5), lambda i: (i, 0)), (6, 5)), (0, None)),
        (4, 6, 5),
        (6, 5),
    ),
    PrimitiveCase("attention", attention(), (2, 4, 6, 5), (2, 4, 3, 5), (2, 4, 3, 5)),
    PrimitiveCase("attention, heads first", attention(True), (2, 4, 6, 5), (2, 4, 6, 5), (2, 4, 6, 5)),
    PrimitiveCase("attention, bias", attention(has_bias=True), (2, 4, 6, 5), (2, 4, 6, 5), (2, 4, 6, 5), (1, 6, 4, 4)),
    PrimitiveCase("attention, lengths", attention(), (2, 4, 6, 5), (2, 4, 6, 5), (2, 4, 6, 5), integers(1, 5, 2)),
]
