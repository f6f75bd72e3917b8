"""Move sums out of loops, such as gradients of weights that are summed over micro-batches.

The first loop becomes the second loop:

    for x, y in batches:
        c = c + 2 * (x.T @ y)

    for x, y in batches:
        partial = partial + x.T @ y
    c = c + 2 * partial

Workers then communicate once, after the loop. But each worker stores its own `partial`, which may be as large as `c`.

An inner loop may compute such products for all layers. Then each iteration of the inner loop has a *separate sum*.
After the outer loop, a *completing loop* computes `2 * partial` for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np

from tofu.jax.frontend.equations import (
    LOOP_CELL,
    LOOP_STACK,
    Equation,
    Literal,
    Loop,
    LoopCarry,
    Operand,
    Step,
    list_operands,
    walk_all,
)
from tofu.jax.frontend.trace import eliminate_dead_code
from tofu.jax.frontend.value_types import ValueType

Item = TypeVar("Item", Equation, Loop)
PRODUCTS = frozenset(("conv_general_dilated", "dot_general", "reduce_sum", "scatter-add"))
"""Primitives that sum over a dimension. If this dimension is split, each worker computes a partial sum."""
ADDABLE = frozenset(("add", "add_any", "convert_element_type", "div", "integer_pow", "mul", "neg", "select_n", "sub"))
"""Element-wise primitives whose results a loop may sum along with products, such as the gradient of a penalty."""
RESHAPING = frozenset(("broadcast_in_dim", "expand_dims", "neg", "reshape", "slice", "squeeze", "transpose"))
ADDING = frozenset(("add", "add_any", "concatenate", "sub"))
SCALING = frozenset(("div", "mul"))
LEAST_SCALED_BITS = 32
"""Numbers with fewer bits are scaled in the loop, because the sum of unscaled numbers might overflow."""


def hoist_sums(step: Step) -> Step | None:
    """Move sums out of the loops of a step. Return None if no sum can move."""
    hoister = _Hoister(list(step.types), {n: e for e in step.walk() for n in e.outputs})
    equations = hoister.hoist_from(step.equations)
    if not hoister.count:
        return None
    outputs = tuple(hoister.find_current(x) for x in step.outputs)
    return eliminate_dead_code(replace(step, types=tuple(hoister.types), equations=equations, outputs=outputs))


@dataclass
class _Hoister:
    types: list[ValueType]
    equation_by_result: Mapping[int, Equation]
    current_by_old: dict[int, Operand] = field(default_factory=dict)
    count: int = 0

    def find_current(self, operand: Operand) -> Operand:
        while isinstance(operand, int) and operand in self.current_by_old:
            operand = self.current_by_old[operand]
        return operand

    def hoist_from(self, items: Sequence[Equation | Loop]) -> tuple[Equation | Loop, ...]:
        # Inner loops come first, because an outer loop may add up their sums.
        hoisted: list[Equation | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                hoisted += self._hoist_from_loop(self._rename(replace(item, equations=self.hoist_from(item.equations))))
            else:
                hoisted.append(self._rename(item))
        return tuple(hoisted)

    def _rename(self, item: Item) -> Item:
        current = {old: self.find_current(old) for old in self.current_by_old}
        return item.with_operands(current) if current else item

    def _hoist_from_loop(self, loop: Loop) -> list[Equation | Loop]:
        body, remaining_carries = _LoopBody(self, loop), []
        following: list[Equation] = []
        for carry in loop.carries:
            hoisted_sum = body.find_sum(carry)
            if hoisted_sum is None:
                remaining_carries.append(carry)
                continue
            self.count += 1
            body.remove_sum(hoisted_sum, self.types[carry.value].dtype)
            following += body.list_equations_after_loop(carry, hoisted_sum)
        if len(remaining_carries) == len(loop.carries):
            return [loop]
        remaining_loop = replace(loop, equations=body.list_remaining(loop.equations), carries=tuple(remaining_carries))
        return [remaining_loop, *body.completing_loops.values(), *following]

    def is_zero(self, operand: Operand) -> bool:
        if isinstance(operand, Literal):
            return bool(np.all(operand.value == 0))
        maker = self.equation_by_result.get(operand)
        return maker is not None and maker.primitive.name == "broadcast_in_dim" and self.is_zero(maker.inputs[0])


@dataclass
class _HoistedSum:
    """A sum that moves out of a loop.

    For `c += 2 * (x.T @ y)`, the new loop sums up `x.T @ y`. The program multiplies the sum by 2 after the loop.

    Attributes
    ----------
    add_equation, summand
        The addition to `c`, and the value that it adds.
    summed_equations
        Equations such as `x.T @ y`. The new loop sums their results.
    moved_equations
        Equations that move behind the loop: here, the multiplication by 2.
    separate_sums
        {stacked result of an inner loop: its sum}. These sums move out of this loop, too.
    has_product
        True if a summed equation is one of `PRODUCTS`, such as a matrix product.
    """

    add_equation: Equation
    summand: int
    moved_equations: dict[int, Equation] = field(default_factory=dict)
    summed_equations: dict[int, Equation] = field(default_factory=dict)
    separate_sums: dict[int, _HoistedSum] = field(default_factory=dict)
    has_product: bool = False

    def copy(self) -> _HoistedSum:
        moved, summed = dict(self.moved_equations), dict(self.summed_equations)
        return replace(self, moved_equations=moved, summed_equations=summed, separate_sums=dict(self.separate_sums))


@dataclass
class _BodyValues:
    equation_by_result: dict[int, Equation]
    sums: Mapping[int, Equation] = field(default_factory=dict)
    stacks: Mapping[int, tuple[Loop, Equation]] = field(default_factory=dict)


class _LoopBody:
    def __init__(self, hoister: _Hoister, loop: Loop) -> None:
        self._hoister = hoister
        inner_loops = [item for item in loop.equations if isinstance(item, Loop)]
        loop_sums = [loop_sum for each in inner_loops for loop_sum in each.walk_sums()]
        complete_sums = {
            loop_sum.number: loop_sum.equation
            for loop_sum in loop_sums
            if loop_sum.is_outermost and not loop_sum.stack_shape
        }
        stacks = {
            result: (each, equation)
            for each in inner_loops
            for result, equation in _map_results(each).items()
            if equation.primitive is LOOP_STACK
        }
        self._values = _BodyValues(_map_results(loop), complete_sums, stacks)
        self._values_inside = {result for equation in walk_all(loop.equations) for result in equation.outputs}
        for each in _walk_loops(loop):
            self._values_inside.update(number for carry in each.carries for number in (carry.value, carry.last))
        self._read_counts = Counter(list_operands(loop.equations))
        self._read_counts.update(carry.following for carry in loop.carries if isinstance(carry.following, int))
        self._moved_values: set[int] = set()
        self._summed_equations: dict[int, Equation] = {}  # result -> changed equation
        self.completing_loops: dict[int, Loop] = {}  # id of the inner loop -> loop

    def find_sum(self, carry: LoopCarry) -> _HoistedSum | None:
        if not isinstance(carry.following, int):
            return None
        add_equation, type_ = self._values.equation_by_result.get(carry.following), self._hoister.types[carry.value]
        if add_equation is None or add_equation.primitive.name not in ("add", "add_any"):
            return None
        summands = [x for x in add_equation.inputs if x != carry.value]
        if len(summands) != 1 or not isinstance(summands[0], int) or not jnp.issubdtype(type_.dtype, np.number):
            return None
        if self._read_counts[carry.value] != 1 or self._read_counts[add_equation.outputs[0]] != 1:
            return None
        hoisted_sum = _HoistedSum(add_equation, summands[0])
        is_sum = self._analyze_summand(summands[0], type_.dtype, hoisted_sum, self._values)
        return hoisted_sum if is_sum and hoisted_sum.has_product else None

    def _analyze_summand(self, value: Operand, dtype: Any, hoisted_sum: _HoistedSum, body_values: _BodyValues) -> bool:
        if not isinstance(value, int) or self._read_counts[value] != 1:
            return False
        if value in self._moved_values or value in self._summed_equations:
            return False
        if value in body_values.sums:
            hoisted_sum.summed_equations[value] = body_values.sums[value]
            hoisted_sum.has_product = True
            return True
        if value in body_values.stacks:
            return self._analyze_stack(value, dtype, hoisted_sum, *body_values.stacks[value])
        equation = body_values.equation_by_result.get(value)
        if (
            equation is None
            or len(equation.outputs) != 1
            or not _can_be_summed_in(self._hoister.types[value].dtype, dtype)
        ):
            return False
        backup = hoisted_sum.copy()
        operands = self._find_linear_operands(equation, dtype, hoisted_sum, body_values)
        if operands is not None and all(self._analyze_summand(x, dtype, hoisted_sum, body_values) for x in operands):
            hoisted_sum.moved_equations[value] = equation
            return True
        vars(hoisted_sum).update(vars(backup))
        name = equation.primitive.name
        if name not in PRODUCTS and name not in ADDABLE:
            return False
        hoisted_sum.summed_equations[value] = equation
        hoisted_sum.has_product |= name in PRODUCTS
        return True

    def _analyze_stack(self, value: int, dtype: Any, hoisted_sum: _HoistedSum, loop: Loop, stack: Equation) -> bool:
        (element,) = stack.inputs
        if not isinstance(element, int):
            return False
        separate_sum = _HoistedSum(stack, element)
        if not self._analyze_summand(element, dtype, separate_sum, _BodyValues(_map_results(loop))):
            return False
        hoisted_sum.separate_sums[value] = separate_sum
        hoisted_sum.has_product |= separate_sum.has_product
        return True

    def _find_linear_operands(
        self, equation: Equation, dtype: Any, hoisted_sum: _HoistedSum, body_values: _BodyValues
    ) -> Sequence[Operand] | None:
        """Return the operands in which an equation is linear, such as (x,) for `2 * x`.

        All other operands must be equal in all iterations. Otherwise, return None.
        """
        name, inputs = equation.primitive.name, equation.inputs
        if name in RESHAPING or name in ADDING:
            return inputs
        if name == "convert_element_type":
            before, after = (self._hoister.types[n].dtype for n in (*inputs, *equation.outputs) if isinstance(n, int))
            return inputs if _can_be_summed_in(before, after) else None
        if name == "reduce_sum":
            (operand,) = inputs
            shape = self._hoister.types[operand].shape if isinstance(operand, int) else ()
            return inputs if prod(shape[axis] for axis in equation.params["axes"]) == 1 else None
        is_scaling = (
            name in SCALING and jnp.issubdtype(dtype, jnp.inexact) and np.dtype(dtype).itemsize * 8 >= LEAST_SCALED_BITS
        )
        if is_scaling or (name == "pad" and self._hoister.is_zero(inputs[1])):
            keeps_dtype = self._hoister.types[equation.outputs[0]].dtype == dtype
            for summand, factor in (inputs, inputs[::-1]) if name == "mul" else (inputs,):
                can_multiply_sum = keeps_dtype or isinstance(factor, Literal)
                if can_multiply_sum and self._hoist_operand(factor, hoisted_sum.moved_equations, body_values):
                    return (summand,)
        return None

    def _hoist_operand(self, operand: Operand, moved_equations: dict[int, Equation], body_values: _BodyValues) -> bool:
        """Return True if an operand is equal in all iterations, and can be computed after the loop.

        Then add the equations that compute it inside the loop to `moved_equations`.
        """
        if isinstance(operand, Literal) or operand not in self._values_inside:
            return True
        equation = body_values.equation_by_result.get(operand)
        if equation is None or self._read_counts[operand] != 1 or operand in self._moved_values:
            return False
        if not equation.inputs or len(equation.outputs) != 1:
            return False
        operand_equations: dict[int, Equation] = {}
        if equation.primitive in (LOOP_CELL, LOOP_STACK) or not all(
            self._hoist_operand(x, operand_equations, body_values) for x in equation.inputs
        ):
            return False
        moved_equations.update(operand_equations)
        moved_equations[operand] = equation
        return True

    def remove_sum(self, hoisted_sum: _HoistedSum, dtype: Any) -> None:
        self._moved_values.update(hoisted_sum.moved_equations, hoisted_sum.add_equation.outputs)
        for value, equation in hoisted_sum.summed_equations.items():
            self._summed_equations[value] = replace(equation, loops_summed=equation.loops_summed + 1)
        for stack_value, separate_sum in hoisted_sum.separate_sums.items():
            self._moved_values.update(separate_sum.moved_equations, separate_sum.add_equation.outputs)
            for value, equation in separate_sum.summed_equations.items():
                self._summed_equations[value] = replace(equation, loops_summed=1, has_separate_sums=True)
            loop, _ = self._values.stacks[stack_value]
            empty_loop = replace(loop, equations=(), carries=(), separate_sums=())
            before = self.completing_loops.get(id(loop), empty_loop)
            stack_equation = replace(separate_sum.add_equation, checkpoint=None)
            self.completing_loops[id(loop)] = replace(
                before,
                equations=(*before.equations, *self._list_moved_equations(separate_sum, dtype), stack_equation),
                separate_sums=(*before.separate_sums, *separate_sum.summed_equations),
            )

    def list_equations_after_loop(self, carry: LoopCarry, hoisted_sum: _HoistedSum) -> Iterator[Equation]:
        type_, types = self._hoister.types[carry.value], self._hoister.types
        yield from self._list_moved_equations(hoisted_sum, type_.dtype)
        if self._hoister.is_zero(carry.first) and types[hoisted_sum.summand].shape == type_.shape:
            self._hoister.current_by_old[carry.last] = hoisted_sum.summand
        else:
            inputs = carry.first, hoisted_sum.summand
            yield replace(hoisted_sum.add_equation, inputs=inputs, outputs=(carry.last,), checkpoint=None)

    def _list_moved_equations(self, hoisted_sum: _HoistedSum, dtype: Any) -> Iterator[Equation]:
        types, retyped_values = self._hoister.types, {*hoisted_sum.summed_equations, *hoisted_sum.separate_sums}
        for number, equation in hoisted_sum.moved_equations.items():
            if retyped_values.intersection(x for x in equation.inputs if isinstance(x, int)):
                retyped_values.add(number)
        for number in retyped_values:
            types[number] = replace(types[number], dtype=dtype)
        for number, equation in hoisted_sum.moved_equations.items():
            inputs = tuple(_as_dtype(x, dtype) if number in retyped_values else x for x in equation.inputs)
            is_converted = number in retyped_values and equation.primitive.name == "convert_element_type"
            params = {**equation.params, "new_dtype": np.dtype(dtype)} if is_converted else equation.params
            yield replace(equation, inputs=inputs, params=params, checkpoint=None)

    def list_remaining(self, items: Sequence[Equation | Loop]) -> tuple[Equation | Loop, ...]:
        remaining: list[Equation | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                remaining.append(replace(item, equations=self.list_remaining(item.equations)))
            elif summed := [self._summed_equations[n] for n in item.outputs if n in self._summed_equations]:
                remaining += summed
            elif not self._moved_values.intersection(item.outputs):
                remaining.append(item)
        return tuple(remaining)


def _can_be_summed_in(dtype: Any, sum_dtype: Any) -> bool:
    is_real = jnp.issubdtype(dtype, jnp.floating) and jnp.issubdtype(sum_dtype, jnp.floating)
    return bool(dtype == sum_dtype or (is_real and jnp.promote_types(dtype, sum_dtype) == sum_dtype))


def _as_dtype(operand: Operand, dtype: Any) -> Operand:
    if isinstance(operand, int) or operand.type.dtype == dtype:
        return operand
    return Literal(np.asarray(operand.value, dtype), replace(operand.type, dtype=dtype))


def _map_results(loop: Loop) -> dict[int, Equation]:
    return {n: equation for equation in loop.equations if isinstance(equation, Equation) for n in equation.outputs}


def _walk_loops(loop: Loop) -> Iterator[Loop]:
    yield loop
    for item in loop.equations:
        if isinstance(item, Loop):
            yield from _walk_loops(item)
