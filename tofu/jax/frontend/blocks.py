"""Compute operators such as `cumsum` and `argmax` in blocks, one for each worker.

For a cumulative sum, each worker sums up its block, and adds the totals of all earlier blocks. A Fourier transform of
two dimensions becomes two transforms, each split along the other dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tofu.jax.frontend.equations import Equation, Loop, Step
from tofu.jax.frontend.trace import StepBuilder
from tofu.jax.frontend.value_types import ValueType, find_limit

Blocked = Callable[[Any], Any]
"""A function that computes a primitive from its operand, block by block."""

BLOCK_JOINS: Mapping[str, Callable[[Any, Any], Any]] = {
    "cumsum": lax.add,
    "cumprod": lax.mul,
    "cummax": lax.max,
    "cummin": lax.min,
    "cumlogsumexp": jnp.logaddexp,
}
"""For each cumulative primitive, the function that joins the results of two neighboring blocks."""
EXTREMES: Mapping[str, Callable[..., Any]] = {"argmax": lax.reduce_max, "argmin": lax.reduce_min}


def divide_into_blocks(step: Step, workers: int) -> Step | None:
    """Rewrite operators such as `cumsum`, so that each worker computes one block.

    Return None if the step has no such operator.
    """
    builder = StepBuilder()
    builder.types, builder.constants = list(step.types), dict(step.constants)
    divided = _divide(builder, step.equations, workers)
    if len(builder.types) == len(step.types):
        return None
    return replace(step, types=tuple(builder.types), equations=divided, constants=builder.constants)


def _divide(builder: StepBuilder, items: Sequence[Equation | Loop], workers: int) -> tuple[Equation | Loop, ...]:
    around, builder.equations = builder.equations, []
    for item in items:
        if isinstance(item, Loop):
            builder.equations.append(replace(item, equations=_divide(builder, item.equations, workers)))
        elif (blocked := _find_blocked(builder, item, workers)) is not None:
            _add_blocked(builder, item, blocked)
        else:
            builder.equations.append(item)
    made, builder.equations = tuple(builder.equations), around
    return made


def _add_blocked(builder: StepBuilder, equation: Equation, blocked: Blocked) -> None:
    before = len(builder.equations)
    scope = "/".join(filter(None, (equation.scope, equation.primitive.name)))
    results = builder.substitute(equation, blocked, equation.inputs, scope)
    named: dict[Any, int] = dict(zip(results, equation.outputs, strict=True))
    for n, one in enumerate(builder.equations[before:], before):
        assert isinstance(one, Equation)
        outputs = tuple(named.get(output, output) for output in one.outputs)
        builder.equations[n] = replace(one.with_operands(named), outputs=outputs)


def _find_blocked(builder: StepBuilder, equation: Equation, workers: int) -> Blocked | None:
    name, params = equation.primitive.name, equation.params
    if name == "fft":
        shape, lengths = builder.find_type(equation.inputs[0]).shape, params["fft_lengths"]
        has_room = _can_split(shape[: len(shape) - len(lengths)], workers)
        return None if len(lengths) == 1 or has_room else partial(_transform, params["fft_type"], lengths)
    if name not in BLOCK_JOINS and name not in EXTREMES and name != "top_k":
        return None
    type_ = builder.find_type(equation.inputs[0])
    axis = params["axes"][0] if name in EXTREMES else params.get("axis", -1) % len(type_.shape)
    extent = type_.shape[axis]
    blocks = gcd(extent, workers)
    least = 2 * params["k"] if name == "top_k" else 2  # smaller blocks are not worth the exchange
    if blocks == 1 or extent < least * blocks:
        return None
    if name in EXTREMES:
        is_number = jnp.issubdtype(type_.dtype, jnp.floating) or jnp.issubdtype(type_.dtype, jnp.integer)
        has_positions = extent - 1 <= jnp.iinfo(params["index_dtype"]).max
        can_divide = is_number and has_positions
        return partial(_find_extreme, name, axis, blocks, params["index_dtype"]) if can_divide else None
    if name == "top_k":
        return partial(_find_largest, axis, blocks, params["k"])
    neutral = _find_neutral(name, type_)
    return None if neutral is None else partial(_accumulate, name, axis, blocks, params["reverse"], neutral)


def _find_neutral(name: str, type_: ValueType) -> Any:
    if name == "cumprod":
        return np.ones((), type_.dtype)
    if name == "cumsum":
        is_real = jnp.issubdtype(type_.dtype, jnp.floating)
        return np.asarray(-0.0 if is_real else 0, type_.dtype)  # 0.0 + -0.0 is 0.0
    is_integer = jnp.issubdtype(type_.dtype, jnp.integer)
    if jnp.issubdtype(type_.dtype, jnp.floating) or (is_integer and name != "cumlogsumexp"):
        return np.asarray(find_limit(1 if name == "cummin" else -1, type_.dtype), type_.dtype)
    return None


def _can_split(shape: Sequence[int], workers: int) -> bool:
    for extent in shape:
        workers //= gcd(extent, workers)
    return workers == 1


def _into_blocks(x: Any, axis: int, blocks: int) -> Any:
    return lax.reshape(x, (*x.shape[:axis], blocks, x.shape[axis] // blocks, *x.shape[axis + 1 :]))


def _accumulate(name: str, axis: int, blocks: int, reverse: bool, neutral: Any, x: Any) -> Any:
    accumulate = getattr(lax, name)
    within_blocks = accumulate(_into_blocks(x, axis, blocks), axis + 1, reverse)
    end = 0 if reverse else within_blocks.shape[axis + 1] - 1
    totals = lax.index_in_dim(within_blocks, end, axis + 1, keepdims=False)
    shift = [(0, 0, 0)] * x.ndim
    shift[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    before = accumulate(lax.pad(totals, neutral, shift), axis, reverse)
    spread = lax.broadcast_in_dim(before, within_blocks.shape, [d + (d > axis) for d in range(x.ndim)])
    return lax.reshape(BLOCK_JOINS[name](spread, within_blocks), x.shape)


def _make_offsets(shape: Sequence[int], dtype: Any, axis: int, step: int) -> Any:
    return lax.broadcasted_iota(dtype, shape, axis) * np.asarray(step, dtype)


def _find_extreme(name: str, axis: int, blocks: int, dtype: Any, x: Any) -> Any:
    apart = _into_blocks(x, axis, blocks)
    find = getattr(lax, name)
    first = find(apart, axis + 1, dtype)  # NaN counts as the extreme
    best = lax.expand_dims(find(EXTREMES[name](apart, (axis + 1,)), axis, dtype), (axis,))
    is_best = lax.broadcasted_iota(dtype, first.shape, axis) == best
    position = first + _make_offsets(first.shape, dtype, axis, apart.shape[axis + 1])
    return lax.reduce_sum(lax.select(is_best, position, lax.full_like(position, 0)), (axis,))


def _find_largest(axis: int, blocks: int, k: int, x: Any) -> tuple[Any, Any]:
    apart = jnp.moveaxis(_into_blocks(x, axis, blocks), (axis, axis + 1), (-2, -1))
    values, positions = lax.top_k(apart, k)
    positions = positions + _make_offsets(positions.shape, positions.dtype, positions.ndim - 2, apart.shape[-1])
    candidates = [lax.reshape(found, (*found.shape[:-2], blocks * k)) for found in (values, positions)]
    largest, chosen = lax.top_k(candidates[0], k)
    found = jnp.take_along_axis(candidates[1], chosen, -1)
    return jnp.moveaxis(largest, -1, axis), jnp.moveaxis(found, -1, axis)


def _transform(kind: Any, lengths: Sequence[int], x: Any) -> Any:
    kinds = type(kind)
    complex_kind = {kinds.RFFT: kinds.FFT, kinds.IRFFT: kinds.IFFT}.get(kind, kind)
    steps = [(x.ndim - 1, kind, lengths[-1])]
    steps += [(d, complex_kind, x.shape[d]) for d in range(x.ndim - 2, x.ndim - len(lengths) - 1, -1)]
    for d, own_kind, length in steps[::-1] if kind == kinds.IRFFT else steps:
        x = jnp.swapaxes(lax.fft(jnp.swapaxes(x, d, -1), own_kind, (length,)), d, -1)
    return x
