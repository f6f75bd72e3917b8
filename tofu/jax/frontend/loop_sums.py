"""Move sums out of loops, such as gradients of weights that are summed over time steps or micro-batches.

Often, a loop only adds to a value that it carries, c' = c + T(p), where p is a matrix product and T is linear. After
the loop, the value is first + T(sum of p). So each worker can sum its own products p within the loop, and workers
communicate once after the loop instead of in every iteration. Meanwhile, each worker holds its partial sum, which may
be as large as the complete tensor.

The values may also be stacked results of an inner loop, such as gradients of layers. Then each iteration of the inner
loop has a separate sum, called a *row*. A second loop of equal length, after the outer loop, applies T to each row.
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
    ValueType,
    walk_all,
)
from tofu.jax.frontend.trace import eliminate_dead_code

Item = TypeVar("Item", Equation, Loop)
PRODUCTS = frozenset(("conv_general_dilated", "dot_general", "reduce_sum", "scatter-add"))
"""Primitives whose results are partial sums on each worker if the dimension that they sum over is split."""
ADDABLE = frozenset(("add", "add_any", "convert_element_type", "div", "integer_pow", "mul", "neg", "select_n", "sub"))
"""Element-wise primitives whose results may be added to a product, such as the gradient of a penalty."""
RESHAPING = frozenset(("broadcast_in_dim", "expand_dims", "neg", "reshape", "slice", "squeeze", "transpose"))
ADDING = frozenset(("add", "add_any", "concatenate", "sub"))
SCALING = frozenset(("div", "mul"))
LEAST_SCALED_BITS = 32
"""Narrower numbers are scaled within the loop, because under loss scaling their unscaled sum might overflow."""


def hoist_sums(step: Step) -> Step | None:
    """Return the step with sums moved out of its loops, or None if there are no such sums. Values keep their numbers."""
    hoister = _Hoister(list(step.types), {n: e for e in step.walk() for n in e.outputs})
    equations = hoister.leave_loops(step.equations)
    if not hoister.count:
        return None
    outputs = tuple(hoister.find(x) for x in step.outputs)
    return eliminate_dead_code(replace(step, types=tuple(hoister.types), equations=equations, outputs=outputs))


@dataclass
class _Hoister:
    """Moves sums out of the loops of a step.

    If a carry began with zeros, its sum replaces its final value; `renamed` maps the final value to the sum.
    """

    types: list[ValueType]
    makers: Mapping[int, Equation]
    renamed: dict[int, Operand] = field(default_factory=dict)
    count: int = 0

    def find(self, operand: Operand) -> Operand:
        """Return the value that now stands for an operand."""
        while isinstance(operand, int) and operand in self.renamed:
            operand = self.renamed[operand]
        return operand

    def leave_loops(self, items: Sequence[Equation | Loop]) -> tuple[Equation | Loop, ...]:
        """Return the items with sums moved out of loops, inner loops first: outer loops may carry their sums."""
        made: list[Equation | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                made += self._hoist_from_loop(self._rename(replace(item, equations=self.leave_loops(item.equations))))
            else:
                made.append(self._rename(item))
        return tuple(made)

    def _rename(self, item: Item) -> Item:
        return item.with_operands({old: self.find(old) for old in self.renamed}) if self.renamed else item

    def _hoist_from_loop(self, loop: Loop) -> list[Equation | Loop]:
        body, kept = _LoopBody(self, loop), []
        behind: list[Equation] = []
        for carry in loop.carries:
            hoisted_sum = body.find_sum(carry)
            if hoisted_sum is None:
                kept.append(carry)
                continue
            self.count += 1
            body.take(hoisted_sum, self.types[carry.value].dtype)
            behind += body.finish(carry, hoisted_sum)
        if len(kept) == len(loop.carries):
            return [loop]
        return [replace(loop, equations=body.list_rest(), carries=tuple(kept)), *body.list_loops_behind(), *behind]

    def is_zero(self, operand: Operand) -> bool:
        """Return True if an operand is known to consist of zeros."""
        if isinstance(operand, Literal):
            return bool(np.all(operand.value == 0))
        maker = self.makers.get(operand)
        return maker is not None and maker.primitive.name == "broadcast_in_dim" and self.is_zero(maker.inputs[0])


@dataclass
class _HoistedSum:
    """A sum to move out of a loop. The equation `adding` adds the value `root` to a carry, or stacks it.

    The equations in `summed` stay in the loop, where their results are summed. The equations in `moved` compute `root`
    from the sums after the loop. `rows` are sums by iteration of an inner loop.
    """

    adding: Equation
    root: int
    moved: dict[int, Equation] = field(default_factory=dict)
    summed: dict[int, Equation] = field(default_factory=dict)
    rows: dict[int, _HoistedSum] = field(default_factory=dict)
    has_product: bool = False

    def copy(self) -> _HoistedSum:
        return replace(self, moved=dict(self.moved), summed=dict(self.summed), rows=dict(self.rows))


@dataclass
class _BodyValues:
    """The values in the body of a loop: `own` equations of the body, and sums and stacks of inner loops."""

    own: dict[int, Equation]
    sums: Mapping[int, Equation] = field(default_factory=dict)
    stacks: Mapping[int, tuple[Loop, Equation]] = field(default_factory=dict)


class _LoopBody:
    def __init__(self, hoister: _Hoister, loop: Loop) -> None:
        self._hoister, self._loop = hoister, loop
        inner = [equation for equation in loop.equations if isinstance(equation, Loop)]
        sums = [total for each in inner for total in each.walk_sums() if total.is_last and not total.rows]
        stacks = {
            n: (each, equation)
            for each in inner
            for n, equation in _list_own(each).items()
            if equation.primitive is LOOP_STACK
        }
        self._level = _BodyValues(_list_own(loop), {total.number: total.equation for total in sums}, stacks)
        within = {n for equation in walk_all(loop.equations) for n in equation.outputs}
        self._within = within.union(*({c.value for c in each.carries} for each in _walk_loops(loop)))
        self._within.update(c.last for each in _walk_loops(loop) if each is not loop for c in each.carries)
        self._reads = Counter(_list_operands(loop))
        self._gone: set[int] = set()
        self._summed: dict[int, Any] = {}  # value -> dtype of its sum
        self._rows: dict[int, Any] = {}  # value that is summed by iteration of an inner loop -> dtype of its sums
        self._behind: dict[int, Loop] = {}  # id of the inner loop -> the loop that finishes its sums

    def find_sum(self, carry: LoopCarry) -> _HoistedSum | None:
        """Return a carry as a sum of results of the body, or None if it is none or includes no product."""
        adding = self._level.own.get(carry.following) if isinstance(carry.following, int) else None
        type_ = self._hoister.types[carry.value]
        if (
            adding is None
            or adding.primitive.name not in ("add", "add_any")
            or not jnp.issubdtype(type_.dtype, np.number)
        ):
            return None
        terms = [x for x in adding.inputs if x != carry.value]
        if len(terms) != 1 or not isinstance(terms[0], int):
            return None
        if self._reads[carry.value] != 1 or self._reads[adding.outputs[0]] != 1:
            return None
        hoisted_sum = _HoistedSum(adding, terms[0])
        return (
            hoisted_sum
            if self._trace(terms[0], type_.dtype, hoisted_sum, self._level) and hoisted_sum.has_product
            else None
        )

    def _trace(self, value: Operand, dtype: Any, hoisted_sum: _HoistedSum, body_values: _BodyValues) -> bool:
        """Return True if a term can be summed over the loop, and record how in `hoisted_sum`."""
        if not isinstance(value, int) or self._reads[value] != 1 or value in self._gone or value in self._summed:
            return False
        if value in body_values.sums:
            hoisted_sum.summed[value] = body_values.sums[value]
            hoisted_sum.has_product = True
            return True
        if value in body_values.stacks:
            return self._trace_rows(value, dtype, hoisted_sum, *body_values.stacks[value])
        maker = body_values.own.get(value)
        if maker is None or len(maker.outputs) != 1 or not _widens(self._hoister.types[value].dtype, dtype):
            return False
        before = hoisted_sum.copy()
        operands = self._find_linear(maker, dtype, hoisted_sum, body_values)
        if operands is not None and all(self._trace(x, dtype, hoisted_sum, body_values) for x in operands):
            hoisted_sum.moved[value] = maker
            return True
        hoisted_sum.moved, hoisted_sum.summed, hoisted_sum.rows = before.moved, before.summed, before.rows
        hoisted_sum.has_product = before.has_product
        name = maker.primitive.name
        if name not in PRODUCTS and name not in ADDABLE:
            return False
        hoisted_sum.summed[value] = maker
        hoisted_sum.has_product |= name in PRODUCTS
        return True

    def _trace_rows(self, value: int, dtype: Any, hoisted_sum: _HoistedSum, loop: Loop, stack: Equation) -> bool:
        (cell,) = stack.inputs
        if not isinstance(cell, int):
            return False
        row_sum = _HoistedSum(stack, cell)
        if not self._trace(cell, dtype, row_sum, _BodyValues(_list_own(loop))):
            return False
        hoisted_sum.rows[value] = row_sum
        hoisted_sum.has_product |= row_sum.has_product
        return True

    def _find_linear(
        self, equation: Equation, dtype: Any, hoisted_sum: _HoistedSum, body_values: _BodyValues
    ) -> Sequence[Operand] | None:
        """Return the operands in which an equation is linear, or None if it needs other values of the loop."""
        name, inputs = equation.primitive.name, equation.inputs
        if name in RESHAPING or name in ADDING:
            return inputs
        if name == "convert_element_type":
            before, after = (self._hoister.types[n].dtype for n in (*inputs, *equation.outputs) if isinstance(n, int))
            return inputs if _widens(before, after) else None
        if name == "reduce_sum":
            (operand,) = inputs
            shape = self._hoister.types[operand].shape if isinstance(operand, int) else ()
            return inputs if prod(shape[axis] for axis in equation.params["axes"]) == 1 else None
        if name == "pad" and self._hoister.is_zero(inputs[1]):
            is_there = self._accepts(equation, inputs[1], dtype) and self._hoist(inputs[1], hoisted_sum, body_values)
            return inputs[:1] if is_there else None
        if name in SCALING and jnp.issubdtype(dtype, jnp.inexact) and np.dtype(dtype).itemsize * 8 >= LEAST_SCALED_BITS:
            for linear, other in ((0, 1), (1, 0)) if name == "mul" else ((0, 1),):
                if self._accepts(equation, inputs[other], dtype) and self._hoist(
                    inputs[other], hoisted_sum, body_values
                ):
                    return (inputs[linear],)
        return None

    def _accepts(self, equation: Equation, other: Operand, dtype: Any) -> bool:
        """Return True if an equation can still read its other operand when the sum has the type `dtype`."""
        return isinstance(other, Literal) or self._hoister.types[equation.outputs[0]].dtype == dtype

    def _hoist(self, operand: Operand, hoisted_sum: _HoistedSum, body_values: _BodyValues) -> bool:
        """Return True if an operand is the same in all iterations, so that it can be read or computed after the loop."""
        if isinstance(operand, Literal) or operand not in self._within:
            return True
        maker = body_values.own.get(operand)
        if (
            maker is None
            or self._reads[operand] != 1
            or operand in self._gone
            or not maker.inputs
            or len(maker.outputs) != 1
        ):
            return False
        hoisted = _HoistedSum(hoisted_sum.adding, hoisted_sum.root)
        if maker.primitive in (LOOP_CELL, LOOP_STACK) or not all(
            self._hoist(x, hoisted, body_values) for x in maker.inputs
        ):
            return False
        hoisted_sum.moved.update(hoisted.moved)
        hoisted_sum.moved[operand] = maker
        return True

    def take(self, hoisted_sum: _HoistedSum, dtype: Any) -> None:
        """Move the equations of a sum behind the loop, and sum the rest within the loop in the type `dtype`."""
        self._gone.update(hoisted_sum.moved, hoisted_sum.adding.outputs)
        self._summed.update(dict.fromkeys(hoisted_sum.summed, dtype))
        for value, row_sum in hoisted_sum.rows.items():
            self._gone.update(row_sum.moved, row_sum.adding.outputs)
            self._rows.update(dict.fromkeys(row_sum.summed, dtype))
            loop, _ = self._level.stacks[value]
            before = self._behind.get(id(loop), replace(loop, equations=(), carries=(), rows=()))
            made = [*self._finish(row_sum, dtype), replace(row_sum.adding, checkpoint=None)]
            self._behind[id(loop)] = replace(
                before, equations=(*before.equations, *made), rows=(*before.rows, *row_sum.summed)
            )

    def finish(self, carry: LoopCarry, hoisted_sum: _HoistedSum) -> Iterator[Equation]:
        """Yield the equations that compute the carry from its sum after the loop."""
        yield from self._finish(hoisted_sum, self._hoister.types[carry.value].dtype)
        if self._hoister.is_zero(carry.first):
            self._hoister.renamed[carry.last] = hoisted_sum.root
        else:
            yield replace(
                hoisted_sum.adding, inputs=(carry.first, hoisted_sum.root), outputs=(carry.last,), checkpoint=None
            )

    def _finish(self, hoisted_sum: _HoistedSum, dtype: Any) -> Iterator[Equation]:
        types, linear = self._hoister.types, {*hoisted_sum.summed, *hoisted_sum.rows}
        for number, equation in hoisted_sum.moved.items():
            if linear.intersection(x for x in equation.inputs if isinstance(x, int)):
                linear.add(number)
        for number in linear:
            types[number] = replace(types[number], dtype=dtype)
        for number, equation in hoisted_sum.moved.items():
            inputs = tuple(_as_dtype(x, dtype) if number in linear else x for x in equation.inputs)
            is_converted = number in linear and equation.primitive.name == "convert_element_type"
            params = {**equation.params, "new_dtype": np.dtype(dtype)} if is_converted else equation.params
            yield replace(equation, inputs=inputs, params=params, checkpoint=None)

    def list_loops_behind(self) -> list[Loop]:
        """Return the loops that complete the rows. All calls of `take` come first."""
        return list(self._behind.values())

    def list_rest(self) -> tuple[Equation | Loop, ...]:
        """Return the equations that remain in the body."""
        return self._keep(self._loop.equations)

    def _keep(self, items: Sequence[Equation | Loop]) -> tuple[Equation | Loop, ...]:
        kept: list[Equation | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                kept.append(replace(item, equations=self._keep(item.equations)))
            elif summed := [self._summed[n] for n in item.outputs if n in self._summed]:
                kept.append(replace(item, loops_summed=item.loops_summed + 1, summed_dtype=summed[0]))
            elif rows := [self._rows[n] for n in item.outputs if n in self._rows]:
                kept.append(replace(item, loops_summed=1, has_rows=True, summed_dtype=rows[0]))
            elif not self._gone.intersection(item.outputs):
                kept.append(item)
        return tuple(kept)


def _widens(dtype: Any, into: Any) -> bool:
    is_real = jnp.issubdtype(dtype, jnp.floating) and jnp.issubdtype(into, jnp.floating)
    return bool(dtype == into or (is_real and jnp.promote_types(dtype, into) == into))


def _as_dtype(operand: Operand, dtype: Any) -> Operand:
    if isinstance(operand, int) or operand.type.dtype == dtype:
        return operand
    return Literal(np.asarray(operand.value, dtype), replace(operand.type, dtype=dtype))


def _list_own(loop: Loop) -> dict[int, Equation]:
    return {n: equation for equation in loop.equations if isinstance(equation, Equation) for n in equation.outputs}


def _walk_loops(loop: Loop) -> Iterator[Loop]:
    yield loop
    for item in loop.equations:
        if isinstance(item, Loop):
            yield from _walk_loops(item)


def _list_operands(loop: Loop) -> Iterator[Operand]:
    yield from (c.following for c in loop.carries if isinstance(c.following, int))
    for item in loop.equations:
        if isinstance(item, Loop):
            yield from (c.first for c in item.carries if isinstance(c.first, int))
            yield from _list_operands(item)
        else:
            yield from (x for x in item.inputs if isinstance(x, int))
