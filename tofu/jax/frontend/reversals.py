"""Remove reversals (`lax.rev`) that cancel each other.

`jnp.cumsum(x[::-1])[::-1]` becomes `lax.cumsum(x, reverse=True)`, and `(x[::-1] + y)[::-1]` becomes `x + y[::-1]`. To
reverse a split dimension, workers would transfer almost every element.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import primitives

from tofu.jax.frontend.equations import CUMULATIVE, ELEMENTWISE, Equation, Literal, Operand
from tofu.jax.frontend.value_types import ValueType

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder

Reversed: TypeAlias = "tuple[int, frozenset[int]]"
"""The number of a value, and the dimensions along which the value is reversed."""
Source: TypeAlias = "tuple[Mapping[str, Any], Sequence[tuple[Operand, Iterable[int]]]]"
"""A way to compute a reversed result: the primitive's parameters, and each operand with its reversed dimensions."""
Shapes: TypeAlias = "tuple[Sequence[int], Sequence[int]]"
"""The shapes of the first operand and of the result."""
MOST_EQUATIONS = 2048  # to search before each reversal


def cancel_reversals(builder: StepBuilder, equation: Equation, types: Sequence[ValueType]) -> Sequence[Operand] | None:
    """Compute the result of a `lax.rev` with fewer reversals. Return None if this saves nothing."""
    search = _Search(builder)
    wanted = search.reverse(equation.inputs[0], equation.params["dimensions"])
    if isinstance(wanted, Literal) or not search.run(wanted) or not search.gains(prod(types[0].shape)):
        return None
    return [search.build(wanted, equation)]


class _Search:
    """A search for a way to compute a reversed value without `lax.rev` (the JAX operation of `x[::-1]`).

    Attributes
    ----------
    computed
        The equation (a JAX operation), parameters and operands that compute each reversed value.
    equal
        Other values that equal a reversed value, such as x for `y[::-1]` if y is `x[::-1]`.
    rest
        Values that only `lax.rev` can reverse.
    cancels
        True if two reversals cancel each other.
    """

    def __init__(self, builder: StepBuilder) -> None:
        self.builder = builder
        self.computed: dict[Reversed, tuple[Equation, Mapping[str, Any], list[Reversed | Literal]]] = {}
        self.equal: dict[Reversed, Reversed] = {}
        self.rest: list[Reversed] = []
        self.cancels = False

    def reverse(self, value: Operand, dimensions: Iterable[int]) -> Reversed | Literal:
        if isinstance(value, Literal):
            return value
        return value, frozenset(dimensions if self.builder.types[value].shape else ())

    def run(self, wanted: Reversed) -> bool:
        waiting, seen = [wanted], {wanted}
        while waiting and len(seen) <= MOST_EQUATIONS:
            for following in self._expand(waiting.pop()):
                if not isinstance(following, Literal) and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return not waiting

    def gains(self, size: int) -> bool:
        count = sum(prod(self.builder.types[value].shape) for value, _ in self.rest)
        return count < size or (count == size and self.cancels)

    def _expand(self, wanted: Reversed) -> Sequence[Reversed | Literal]:
        value, dimensions = wanted
        maker = self.builder.find_producer(value)
        if not dimensions or wanted in self.builder.in_reverse:
            return ()
        if maker is not None and maker.primitive.name == "rev":
            left = self.reverse(maker.inputs[0], dimensions.symmetric_difference(maker.params["dimensions"]))
            assert not isinstance(left, Literal)
            self.equal[wanted], self.cancels = left, True
            return (left,)
        if maker is not None and maker.primitive.name == "iota" and maker.params["dimension"] not in dimensions:
            self.equal[wanted] = value, frozenset()
            return ()
        source = None if maker is None else self._find_source(maker, dimensions)
        if maker is None or source is None:
            if not self._changes_order(wanted):
                self.equal[wanted] = value, frozenset()
            elif value in self.builder.constants:
                with jax.ensure_compile_time_eval():
                    reversed_constant = jnp.flip(self.builder.constants[value], tuple(dimensions))
                self.builder.in_reverse[wanted] = self.builder.add_constant(reversed_constant)
            else:
                self.rest.append(wanted)
            return ()
        params, operands = source
        self.computed[wanted] = maker, params, [self.reverse(*operand) for operand in operands]
        return self.computed[wanted][2]

    def _changes_order(self, wanted: Reversed) -> bool:
        return any(self.builder.types[wanted[0]].shape[d] > 1 for d in wanted[1])

    def _find_source(self, maker: Equation, dimensions: frozenset[int]) -> Source | None:
        name = maker.primitive.name
        if name in ELEMENTWISE or (name == "iota" and jnp.issubdtype(maker.params["dtype"], jnp.integer)):
            return maker.params, [(x, dimensions) for x in maker.inputs]
        if name not in RULES:
            return None
        before, after = (self.builder.find_type(x).shape for x in (maker.inputs[0], maker.outputs[0]))
        return RULES[name](maker, dimensions, (before, after))

    def build(self, wanted: Reversed, equation: Equation) -> Operand:
        builder, done = self.builder, self.builder.in_reverse
        for found in sorted((*self.computed, *self.rest), key=lambda found: found[0]):  # operands come first
            value, dimensions = found
            if found not in self.computed:
                params: Mapping[str, Any] = {"dimensions": tuple(sorted(dimensions))}
                done[found] = builder.add(primitives.rev_p, builder.types[value], [value], equation, **params)
                continue
            maker, params, operands = self.computed[found]
            inputs = list(map(self._find, operands))
            if maker.primitive.name == "iota":
                last = maker.params["shape"][maker.params["dimension"]] - 1
                (done[found],) = builder.substitute(equation, partial(_subtract_from, last), [value])
            elif not self._changes_order(found) and inputs == list(maker.inputs):
                done[found] = value
            else:
                done[found] = builder.add(maker.primitive, builder.types[value], inputs, maker, **params)
        return self._find(wanted)

    def _find(self, wanted: Reversed | Literal) -> Operand:
        if isinstance(wanted, Literal):
            return wanted
        while wanted in self.equal:
            wanted = self.equal[wanted]
        return self.builder.in_reverse[wanted] if wanted[1] else wanted[0]


def _subtract_from(number: int, x: Any) -> Any:
    return lax.full_like(x, number) - x


def _accumulate(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source:
    reverse = maker.params["reverse"] != (maker.params["axis"] in dimensions)
    return {**maker.params, "reverse": reverse}, [(maker.inputs[0], dimensions)]


def _broadcast(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source:
    placed = maker.params["broadcast_dimensions"]
    return maker.params, [
        (maker.inputs[0], [n for n, d in enumerate(placed) if d in dimensions]),
        *((x, ()) for x in maker.inputs[1:]),
    ]


def _concatenate(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source:
    order = maker.inputs[::-1] if maker.params["dimension"] in dimensions else maker.inputs
    return maker.params, [(x, dimensions) for x in order]


def _pad(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source:
    config = maker.params["padding_config"]
    turned = tuple(
        (high, low, inner) if d in dimensions else (low, high, inner) for d, (low, high, inner) in enumerate(config)
    )
    return {**maker.params, "padding_config": turned}, [(maker.inputs[0], dimensions), (maker.inputs[1], ())]


def _reshape(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source | None:
    ends_before, ends = map(_list_ends, shapes)
    shared = sorted({*ends_before.values()} & {*ends.values()})
    runs_before, runs = ({d: bisect_left(shared, end) for d, end in found.items()} for found in (ends_before, ends))
    reversed_ = {runs[d] for d in dimensions.intersection(runs)}
    if any(d not in dimensions for d, run in runs.items() if run in reversed_):
        return None
    kept = {d for d, run in runs_before.items() if run not in reversed_}
    return maker.params, [(maker.inputs[0], [d for d in range(len(shapes[0])) if d not in kept])]


def _list_ends(shape: Sequence[int]) -> dict[int, int]:
    return {d: end for d, end in enumerate(accumulate(shape, mul)) if shape[d] > 1}


def _slice(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source:
    starts, limits = list(maker.params["start_indices"]), list(maker.params["limit_indices"])
    strides = maker.params["strides"] or (1,) * len(starts)
    for d in dimensions:
        reach = strides[d] * (shapes[1][d] - 1)
        starts[d] = shapes[0][d] - 1 - starts[d] - reach
        limits[d] = starts[d] + reach + 1
    params = {**maker.params, "start_indices": tuple(starts), "limit_indices": tuple(limits)}
    return params, [(maker.inputs[0], dimensions)]


def _transpose(maker: Equation, dimensions: frozenset[int], shapes: Shapes) -> Source:
    return maker.params, [(maker.inputs[0], [maker.params["permutation"][d] for d in dimensions])]


RULES: Mapping[str, Callable[[Equation, frozenset[int], Shapes], Source | None]] = {
    **dict.fromkeys(CUMULATIVE, _accumulate),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "squeeze": _reshape,
    "transpose": _transpose,
}
"""For each primitive that can compute a reversed result, a function that returns a `Source`, or None."""
