"""Rewrite equations to compute constants, to avoid operations without a description, and to save communication."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun, primitives

from tdl_ops.jax import DESCRIPTIONS
from tdl_ops.jax.lacking import has_kinds_of_memory
from tofu.errors import UnsupportedError
from tofu.jax.frontend.empty import drop_empty
from tofu.jax.frontend.equations import Equation, Literal, Operand, Step
from tofu.jax.frontend.reversals import cancel_reversals
from tofu.jax.frontend.value_types import ValueType
from tofu.jax.frontend.versions import as_closed, find_key_implementation, is_memory_kind, is_of_jax
from tofu.jax.frontend.windows import (
    rewrite_concatenation,
    rewrite_dynamic_slice,
    rewrite_dynamic_update,
    rewrite_gather,
    rewrite_pad,
    rewrite_scatter,
)

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

Rule: TypeAlias = "Callable[[StepBuilder, Equation, Sequence[ValueType]], Sequence[Operand] | None]"
"""A function that replaces an equation. It returns the new results, or None to keep the equation."""

REDUCTIONS = {"psum": lax.reduce_sum, "pmax": lax.reduce_max, "pmin": lax.reduce_min}
COMPARISONS = {"max": primitives.ge_p, "min": primitives.le_p}
"""For each primitive, the comparison of x and y that is true if the primitive chooses x."""
DEVICE_PRIMITIVES = frozenset(("pmap", "shard_map", "xla_pmap", *REDUCTIONS))


def rewrite(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Return operands that replace the results of an equation (JAX operation), or None to keep the equation."""
    name = "scatter" if equation.primitive.name.startswith("scatter") else equation.primitive.name
    rules = [_compute_scalars, drop_empty, *RULES.get(name, ())]
    if builder.is_planned and not any(type_.is_key for type_ in types):
        rules += PLANNING_RULES.get(name, ())
    for rule in (*rules, _trace_implementation):
        if (results := rule(builder, equation, types)) is not None:
            return results
    return None


def check_primitives(step: Step) -> None:
    """Raise UnsupportedError if the step itself uses several devices, as with `shard_map`, or draws with `rng_uniform`."""
    for equation in step.walk():
        if equation.primitive.name == "rng_uniform":
            raise UnsupportedError(
                f"rng_uniform at {equation.line} draws other numbers on each device and in each call. Use jax.random."
            )
        if equation.primitive.name in DEVICE_PRIMITIVES:
            raise UnsupportedError(
                f"{equation.primitive.name} at {equation.line} divides its work over devices by itself, which Tofu "
                "does for the whole step. Write the step for one device."
            )


def complete(builder: StepBuilder, equation: Equation) -> Equation:
    """Return a simpler equation, without literals (constant operands), and without the `dimensions` of a reshape.

    Equations that broadcast the literals or transpose the operand are added to `builder`.
    """
    return _without_literals(builder, _without_dimension_order(builder, equation))


def _compute_scalars(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    numbers = [x.value for x in equation.inputs if isinstance(x, Literal)]
    if not numbers or len(numbers) < len(equation.inputs) or any(type_.shape or type_.is_key for type_ in types):
        return None
    if equation.primitive.name in ("pure_callback", "rng_uniform"):  # called in each step
        return None
    results = equation.evaluate_now(numbers)
    return [Literal(np.asarray(value), type_) for value, type_ in zip(results, types, strict=True)]


def _reduce_vmap_axes(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    name, axes = equation.primitive.name, equation.params.get("axes", ())
    if not all(isinstance(axis, int) for axis in axes):
        return None

    def reduce_dimensions(*operands: Any) -> list[Any]:
        return [REDUCTIONS[name](operand, axes) for operand in operands]

    return builder.substitute(equation, reduce_dimensions, equation.inputs)


def _divide_barrier(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace `optimization_barrier((x, y))` by a barrier for x and one for y. Plans may split x and y differently.

    A barrier prevents the compiler from optimising across it.
    """
    return [
        x if isinstance(x, Literal) else builder.add(equation.primitive, type_, [x], equation)
        for x, type_ in zip(equation.inputs, types, strict=True)
    ]


def _put_in_memory(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Remove `jax.device_put`, unless it moves a value to another kind of memory. Tofu itself chooses devices."""
    targets = equation.params["devices"]
    has_memory_kinds = has_kinds_of_memory()
    if not has_memory_kinds and any(map(is_memory_kind, targets)):
        warnings.warn(
            f"The memory that jax.device_put names at {equation.line} is left out, as by offloading policies of jax.checkpoint: "
            f"{jax.devices()[0].platform} devices have one kind of memory here.",
            stacklevel=2,
        )
    results: list[Operand] = []
    for n, (x, type_, target) in enumerate(zip(equation.inputs, types, targets, strict=True)):
        if isinstance(x, Literal) or not has_memory_kinds or not is_memory_kind(target):
            results.append(x)
            continue
        params: dict[str, Any] = {
            name: (value[n],) if isinstance(value, tuple) else value for name, value in equation.params.items()
        }
        results.append(builder.add(equation.primitive, type_, [x], equation, **params))
    return results


def _write_completely(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace a scatter that writes all elements, such as `x.at[...].set(y)`, by an element-wise equation."""
    operand, _, update = equation.inputs
    numbers, (type_,) = equation.params["dimension_numbers"], types
    written = builder.find_type(update)
    if numbers.scatter_dims_to_operand_dims or numbers.operand_batching_dims or written.shape != type_.shape:
        return None
    operation = equation.primitive.name.removeprefix("scatter").lstrip("-_")
    if operation:
        return [builder.add(getattr(primitives, f"{operation}_p"), type_, [operand, update], equation)]
    if equation.params["update_jaxpr"] is None:
        return [update]
    return builder.substitute(equation, _read_update(equation, len(type_.shape)), [operand, update])


def _read_update(equation: Equation, rank: int) -> Callable[..., Any]:
    update_jaxpr = as_closed(equation.params["update_jaxpr"], equation.params["update_consts"])

    def update_element(element: Any, update: Any) -> Any:
        return jaxpr_as_fun(update_jaxpr)(element, update)[0]

    return reduce(lambda function, _: jax.vmap(function), range(rank), update_element)


def _read_completely(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace `x.at[...].get()`, and other gathers of all elements, by x."""
    operand, dimension_numbers = equation.inputs[0], equation.params["dimension_numbers"]
    indexed_dimensions = (*dimension_numbers.start_index_map, *dimension_numbers.operand_batching_dims)
    is_complete = tuple(equation.params["slice_sizes"]) == builder.find_type(operand).shape == types[0].shape
    return [operand] if is_complete and not indexed_dimensions else None


def _compare_operands(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Replace `x == maximum(x, y)`, as in the gradient of `maximum`, by `x >= y`.

    JAX's compiler may compute x and y twice with different rounding errors. Then neither equals the maximum.
    """
    for operand, extremum in (equation.inputs, equation.inputs[::-1]):
        maker = builder.find_producer(extremum)
        if maker is None or maker.primitive.name not in COMPARISONS:
            continue
        other_operands = [maker.inputs[1 - n] for n in (0, 1) if _is_same_operand(maker.inputs[n], operand)]
        if other_operands and jnp.issubdtype(builder.find_type(extremum).dtype, jnp.floating):
            return [builder.add(COMPARISONS[maker.primitive.name], types[0], [operand, other_operands[0]], equation)]
    return None


def _is_same_operand(first: Operand, second: Operand) -> bool:
    if isinstance(first, Literal) and isinstance(second, Literal):
        return bool(first.value == second.value)
    return first is second or (isinstance(first, int) and first == second)


def _trace_implementation(
    builder: StepBuilder, equation: Equation, types: Sequence[ValueType]
) -> Sequence[Operand] | None:
    implementation = equation.primitive.impl
    if DESCRIPTIONS.get(equation.primitive.name) is not None or is_of_jax(implementation):
        return None
    types_of_operands = map(builder.find_type, equation.inputs)
    shapes = [jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types_of_operands]
    run = partial(implementation, **equation.params)
    try:
        closed = jax.make_jaxpr(lambda *operands: jax.tree.leaves(run(*operands)))(*shapes)
    except Exception:
        # The implementation needs concrete values. The error for undescribed primitives explains alternatives.
        return None
    if any(eqn.primitive is equation.primitive for eqn in closed.jaxpr.eqns):
        return None
    return builder.inline_closed(closed, equation.inputs, equation)


def _pad_between(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    config = equation.params["padding_config"]
    if all(inner == 0 for _, _, inner in config) or not isinstance(equation.inputs[1], Literal):
        return None

    def pad(x: Any, pad_value: Any) -> Any:
        split_shape, merged_shape = [], []
        inner_padding: list[tuple[int, int, int]] = []
        outer_padding: list[tuple[int, int, int]] = []
        for extent, (low, high, inner) in zip(x.shape, config, strict=True):
            first = low % (inner + 1)
            split_shape += [extent, 1] if inner else [extent]
            inner_padding += [(0, 0, 0), (first, inner - first, 0)] if inner else [(0, 0, 0)]
            merged_shape.append(extent * (inner + 1))
            outer_padding.append((low - first, high - (inner - first), 0))
        spread = lax.pad(lax.reshape(x, split_shape), pad_value, inner_padding)
        return lax.pad(lax.reshape(spread, merged_shape), pad_value, outer_padding)

    number = equation.inputs[1].value
    return builder.substitute(equation, lambda x: pad(x, number), equation.inputs[:1])


def _cut_before_steps(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Rewrite `x[:3, ::2]` as `x[:3][:, ::2]`. A worker then reads only 3 rows if the rows are not split."""
    begins, ends, steps = (equation.params[name] for name in ("start_indices", "limit_indices", "strides"))
    if steps is None or set(steps) == {1}:
        return None
    extents = builder.find_type(equation.inputs[0]).shape
    bounds = [(b, e) if step == 1 else (0, n) for b, e, n, step in zip(begins, ends, extents, steps, strict=True)]
    if bounds == [(0, n) for n in extents]:
        return None
    later_begins = [0 if step == 1 else begin for begin, step in zip(begins, steps, strict=True)]
    later_ends = [end - begin if step == 1 else end for begin, end, step in zip(begins, ends, steps, strict=True)]

    def cut(x: Any) -> Any:
        return lax.slice(lax.slice(x, *zip(*bounds, strict=True)), later_begins, later_ends, steps)

    return builder.substitute(equation, cut, equation.inputs)


def _slice_key_data(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Slice or update the integers of `jax.random.key`s, because JAX's compiler cannot mask or add keys."""
    if not types[0].is_key:
        return None
    rank, count = len(types[0].shape), len(equation.inputs) - len(types[0].shape)

    def move(*operands: Any) -> Any:
        arrays, starts = map(jax.random.key_data, operands[:count]), operands[count:]
        operand, *update = arrays
        begins = (
            *starts,
            *(lax.full_like(starts[0], 0) if starts else np.int32(0) for _ in range(operand.ndim - rank)),
        )
        if update:
            bits = lax.dynamic_update_slice(operand, *update, begins)
        else:
            bits = lax.dynamic_slice(operand, begins, (*equation.params["slice_sizes"], *operand.shape[rank:]))
        return jax.random.wrap_key_data(bits, impl=find_key_implementation(types[0].dtype))

    return builder.substitute(equation, move, equation.inputs)


def _select_padding(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Pad with zeros, and then replace these zeros by the padding number. Return None if a usual pad is possible."""
    if types[0].is_key:
        return None
    number, config = equation.inputs[1], equation.params["padding_config"]
    if isinstance(number, Literal) and not complex(number.value).imag:
        return None
    shape = types[0].shape

    def pad(x: Any, pad_value: Any) -> Any:
        is_element = jnp.full(shape, True)
        for d, (extent, (low, high, inner)) in enumerate(zip(x.shape, config, strict=True)):
            if low or high or inner:
                low, inner = int(low), int(inner)  # jnp.pad passes np.int64
                position = lax.broadcasted_iota(np.int32, shape, d) - low
                is_element &= (position >= 0) & (position <= (extent - 1) * (inner + 1))
                is_element &= lax.rem(position, np.int32(inner + 1)) == 0
        return lax.select(is_element, lax.pad(x, np.zeros((), x.dtype), config), jnp.full(shape, pad_value, x.dtype))

    return builder.substitute(equation, pad, equation.inputs)


RULES: Mapping[str, tuple[Rule, ...]] = {
    **dict.fromkeys(REDUCTIONS, (_reduce_vmap_axes,)),
    "device_put": (_put_in_memory,),
    "dynamic_slice": (_slice_key_data,),
    "dynamic_update_slice": (_slice_key_data,),
    "eq": (_compare_operands,),
    "gather": (_read_completely,),
    "optimization_barrier": (_divide_barrier,),
    "pad": (_select_padding,),
    "scatter": (_write_completely,),
}
"""The rules of each primitive. All scatters share the rules of "scatter"."""
PLANNING_RULES: Mapping[str, tuple[Rule, ...]] = {
    "concatenate": (rewrite_concatenation,),
    "dynamic_slice": (rewrite_dynamic_slice,),
    "dynamic_update_slice": (rewrite_dynamic_update,),
    "gather": (rewrite_gather,),
    "pad": (_pad_between, rewrite_pad),
    "rev": (cancel_reversals,),
    "scatter": (rewrite_scatter,),
    "slice": (_cut_before_steps,),
}
"""Rules that make plans communicate less. They do not apply to random keys."""


def _without_dimension_order(builder: StepBuilder, equation: Equation) -> Equation:
    order = equation.params.get("dimensions") if equation.primitive.name == "reshape" else None
    if order is None:
        return equation
    (operand,) = equation.inputs
    assert isinstance(operand, int)
    type_ = builder.types[operand]
    transposed_type = type_.with_shape(*(type_.shape[d] for d in order))
    transposed = builder.add(primitives.transpose_p, transposed_type, [operand], equation, permutation=tuple(order))
    return replace(equation, inputs=(transposed,), params={**equation.params, "dimensions": None})


def _without_literals(builder: StepBuilder, equation: Equation) -> Equation:
    if not any(isinstance(x, Literal) for x in equation.inputs):
        return equation
    description = DESCRIPTIONS.get(equation.primitive.name)
    if description is None or "literals" in description.defaults:
        return equation

    def broadcast_literal(number: Literal) -> int:
        primitive = primitives.broadcast_in_dim_p
        return builder.add(primitive, number.type, [number], equation, shape=(), broadcast_dimensions=(), sharding=None)

    inputs = tuple(broadcast_literal(x) if isinstance(x, Literal) else x for x in equation.inputs)
    return replace(equation, inputs=inputs)
