"""A traced step as a list of equations (JAX operations) and loops. It contains no function calls.

Equations refer to values by number. A loop may sum a result over its iterations. Two nested loops may also compute
*separate sums*, one for each iteration of the inner loop:

    for batch in batches:
        for t, layer in enumerate(layers):
            sums[t] += compute_gradient(layer, batch)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend.core import Primitive

from tofu.jax.frontend.value_types import ValueType
from tofu.jax.frontend.versions import UNKNOWN_LINE, Line

LOOP_CELL = Primitive("loop_cell")
"""A primitive that takes element t of a scanned array in iteration t of a loop."""
LOOP_STACK = Primitive("loop_stack")
"""A primitive that stores a result as element t of a stack in iteration t of a loop."""

CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
_ELEMENTWISE_NAMES = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex
    conj convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma
    igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p logistic lt lt_to max min mul ne neg
    nextafter not or polygamma population_count pow real reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh xor zeta
"""
ELEMENTWISE = frozenset(_ELEMENTWISE_NAMES.split())
"""Element-wise primitives. Each operand is a scalar or has the shape of the result."""


@dataclass(frozen=True)
class Literal:
    """A constant number in an equation, such as 2 in `x * 2`."""

    value: np.ndarray[Any, Any]
    type: ValueType

    @property
    def number(self) -> int | float | complex:
        """The constant as a Python number."""
        number: bool | int | float | complex = self.value.item()
        return int(number) if isinstance(number, bool) else number


Operand: TypeAlias = "int | Literal"
"""An operand of an equation: the number of a value in `Step.types`, or a literal."""


@dataclass(frozen=True)
class Equation:
    """A call of a JAX primitive (basic operation), such as `add`.

    Attributes
    ----------
    scope
        The names of `jax.named_scope`s and transformations around the equation, such as
        `transpose(jvp(encoder))/attention`.
    line
        Line of the user's program that created the equation.
    checkpoint
        Equations within the same `jax.checkpoint` have the same number. None outside.
    is_gradient
        True if JAX's transposition created the equation, which computes gradients.
    loops_summed
        Number of nested loops that sum the result.
    has_separate_sums
        True if outer loops compute a sum for each iteration t of the innermost loop: `sums[t] += result`.
    """

    primitive: Any
    params: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[int, ...]
    scope: str = ""
    line: Line = UNKNOWN_LINE
    checkpoint: int | None = None
    is_gradient: bool = False
    loops_summed: int = 0
    has_separate_sums: bool = False

    def __str__(self) -> str:
        call = f"{self.primitive.name}({', '.join(map(_format_operand, self.inputs))})"
        return f"{', '.join(f'v{n}' for n in self.outputs)} {'+' if self.loops_summed else ''}= {call}"

    def evaluate(self, operands: Sequence[Any]) -> list[Any]:
        """Compute the results. `operands` includes the values of literals."""
        bind = partial(self.primitive.bind, **self.params)
        results = (jax.jit(bind) if self.primitive.name == "device_put" else bind)(*operands)
        return list(results) if self.primitive.multiple_results else [results]

    def evaluate_now(self, operands: Sequence[Any]) -> list[Any]:
        """Compute the results as arrays, also while JAX traces a function."""
        with jax.ensure_compile_time_eval():
            return self.evaluate(operands)

    def compute(self, values: dict[int, Any]) -> None:
        """Read the operands from `values`, and add the results to `values`."""
        results = self.evaluate([read_operand(x, values) for x in self.inputs])
        values.update(zip(self.outputs, results, strict=True))

    def with_operands(self, replacements: Mapping[int, Operand]) -> Equation:
        """Return a copy with some operands replaced."""
        return replace(self, inputs=tuple(_substitute(x, replacements) for x in self.inputs))


@dataclass(frozen=True)
class LoopCarry:
    """A value that a loop passes from each iteration to the next.

    Attributes
    ----------
    value
        Number of the value within the loop body.
    first
        Operand with the value of the first iteration.
    following
        Operand with the value of the next iteration.
    last
        Number of the final value after the loop.
    """

    value: int
    first: Operand
    following: Operand
    last: int

    def __str__(self) -> str:
        first, following = _format_operand(self.first), _format_operand(self.following)
        return f"v{self.value} = {first} then {following}, at the end v{self.last}"

    def with_operands(self, replacements: Mapping[int, Operand]) -> LoopCarry:
        """Return a copy with some operands replaced."""
        first, following = (_substitute(operand, replacements) for operand in (self.first, self.following))
        return replace(self, first=first, following=following)


@dataclass(frozen=True)
class LoopSum:
    """The sum of the results of an equation (JAX operation) over the iterations of a loop.

    Attributes
    ----------
    equation
        The equation. It may be in an inner loop.
    is_separate
        True if each iteration of the loop has its own sum.
    is_outermost
        True if no outer loop continues the sum.
    stack_shape
        (n,) for n separate sums, otherwise ().
    """

    equation: Equation
    is_separate: bool
    is_outermost: bool
    stack_shape: tuple[int, ...]

    @property
    def number(self) -> int:
        """The number of the sum among the step's values."""
        return self.equation.outputs[0]


@dataclass(frozen=True)
class Loop:
    """A loop of `length` iterations, such as a `lax.scan`. If `reverse` is True, iterations run in reverse order.

    For each value in `separate_sums`, an earlier loop computed an array of sums. Iteration t reads `sums[t]`.
    """

    equations: tuple[Equation | Loop, ...]
    carries: tuple[LoopCarry, ...]
    length: int
    reverse: bool
    scope: str
    separate_sums: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.scope}: {self.length} times", *map(str, self.carries)]
        return "\n    ".join([*lines, *"\n".join(map(str, self.equations)).splitlines()])

    def without_constant_carries(self) -> Loop:
        """If a value that iterations pass on never changes, let the body read the value from outside the loop."""
        operand_by_constant = {c.value: c.first for c in self.carries if c.following == c.value}
        if not operand_by_constant:
            return self
        carries = tuple(replace(c, following=c.first) if c.value in operand_by_constant else c for c in self.carries)
        return replace(self, carries=carries).with_operands(operand_by_constant)

    def with_operands(self, replacements: Mapping[int, Operand]) -> Loop:
        """Return a copy with some operands replaced."""
        equations = tuple(item.with_operands(replacements) for item in self.equations)
        carries = tuple(carry.with_operands(replacements) for carry in self.carries)
        return replace(self, equations=equations, carries=carries)

    def walk_sums(self, depth: int = 1) -> Iterator[LoopSum]:
        """Yield the sums of this loop, also for equations in inner loops.

        `depth` is 1 for this loop, 2 for a loop within it, and so on.
        """
        for item in self.equations:
            if isinstance(item, Loop):
                yield from item.walk_sums(depth + 1)
            elif item.loops_summed and depth <= (outermost := item.loops_summed + item.has_separate_sums):
                stack_shape = (self.length,) if item.has_separate_sums else ()
                yield LoopSum(item, item.has_separate_sums and depth == 1, depth == outermost, stack_shape)

    def compute(self, values: dict[int, Any]) -> None:
        """Run the loop. Add its results, and the values of its last iteration, to `values`."""
        elements_by_stack: dict[int, list[Any]] = {}
        carried = [read_operand(carry.first, values) for carry in self.carries]
        for t in reversed(range(self.length)) if self.reverse else range(self.length):
            values.update(zip((carry.value for carry in self.carries), carried, strict=True))
            for item in self.equations:
                if isinstance(item, Equation) and item.primitive is LOOP_CELL:
                    values[item.outputs[0]] = read_operand(item.inputs[0], values)[t]
                elif isinstance(item, Equation) and item.primitive is LOOP_STACK:
                    elements_by_stack.setdefault(item.outputs[0], []).append(read_operand(item.inputs[0], values))
                else:
                    item.compute(values)
            carried = [read_operand(carry.following, values) for carry in self.carries]
        values.update(zip((carry.last for carry in self.carries), carried, strict=True))
        for stack, elements in elements_by_stack.items():
            values[stack] = jax.numpy.stack(elements[::-1] if self.reverse else elements)


@dataclass(frozen=True)
class Step:
    """A traced step: a list of equations (JAX operations) and loops.

    `types` has the type of each value. `constants` are arrays that the step uses but does not take as arguments.
    """

    types: tuple[ValueType, ...]
    equations: tuple[Equation | Loop, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Operand, ...]
    constants: Mapping[int, Any]

    def __str__(self) -> str:
        return "\n".join(map(str, self.equations))

    @property
    def result_types(self) -> list[ValueType]:
        """Types of the results."""
        return list(map(self.find_type, self.outputs))

    def find_type(self, operand: Operand) -> ValueType:
        """Return the type of an operand."""
        return operand.type if isinstance(operand, Literal) else self.types[operand]

    def compute_all(self, arguments: Sequence[Any]) -> dict[int, Any]:
        """Run the step on one device and return all values. Values in loops are from the last iteration.

        The step must be as traced: no sums were moved out of its loops.
        """
        values: dict[int, Any] = dict(zip(self.inputs, arguments, strict=True)) | dict(self.constants)
        for item in self.equations:
            item.compute(values)
        return values

    def walk(self) -> Iterator[Equation]:
        """Yield all equations in order, including equations in loops."""
        return walk_all(self.equations)


def walk_all(items: Sequence[Equation | Loop]) -> Iterator[Equation]:
    """Yield all equations in order, including equations in loops."""
    for item in items:
        if isinstance(item, Loop):
            yield from walk_all(item.equations)
        else:
            yield item


def list_operands(items: Sequence[Equation | Loop]) -> Iterator[int]:
    """Yield the number of each value that is an operand, also within loops. Skip constants."""
    for item in items:
        if isinstance(item, Loop):
            yield from (x for carry in item.carries for x in (carry.first, carry.following) if isinstance(x, int))
            yield from list_operands(item.equations)
        else:
            yield from (x for x in item.inputs if isinstance(x, int))


def read_operand(operand: Operand, values: Mapping[int, Any]) -> Any:
    """Return the value of an operand."""
    return operand.value if isinstance(operand, Literal) else values[operand]


def _substitute(operand: Operand, replacements: Mapping[int, Operand]) -> Operand:
    return replacements.get(operand, operand) if isinstance(operand, int) else operand


def _format_operand(operand: Operand) -> str:
    return str(operand.value) if isinstance(operand, Literal) else f"v{operand}"
