"""Represent a step as a list of equations and loops: a jaxpr in which all calls are inlined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend.core import Primitive, primitives

from tofu.jax.frontend.versions import UNKNOWN_LINE, Line

LOOP_CELL = Primitive("loop_cell")
"""In iteration t of a loop, takes element t of a scanned value."""
LOOP_STACK = Primitive("loop_stack")
"""In iteration t of a loop, stores a result as element t of a stack."""

CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
ELEMENTWISE = frozenset(
    (
        "abs",
        "acos",
        "acosh",
        "add",
        "add_any",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "bessel_i0e",
        "bessel_i1e",
        "cbrt",
        "ceil",
        "clamp",
        "clz",
        "complex",
        "conj",
        "convert_element_type",
        "copy",
        "copy_p",
        "cos",
        "cosh",
        "digamma",
        "div",
        "eq",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "igamma",
        "igamma_grad_a",
        "igammac",
        "imag",
        "integer_pow",
        "is_finite",
        "le",
        "le_to",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "lt",
        "lt_to",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "nextafter",
        "not",
        "or",
        "polygamma",
        "population_count",
        "pow",
        "real",
        "reduce_precision",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "sub",
        "tan",
        "tanh",
        "xor",
        "zeta",
    )
)
"""Element-wise primitives. Each operand is a scalar or has the shape of the result."""


@dataclass(frozen=True)
class ValueType:
    """The type of a value. `dtype` is JAX's type of an element, which may be that of random keys."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False

    @property
    def is_key(self) -> bool:
        """True for random keys, which are not numbers."""
        return _is_extended(self.dtype)

    @property
    def dtype_name(self) -> str:
        """Name of the dtype."""
        return _name(self.dtype)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element. For a random key, these are the bytes of its data."""
        return _count_item_bytes(self.dtype)

    def with_shape(self, *shape: int) -> ValueType:
        """Return this type with another shape."""
        return ValueType(shape, self.dtype, self.weak_type)


@cache
def _is_extended(dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.extended))


@cache
def _name(dtype: Any) -> str:
    return str(dtype)


@cache
def _count_item_bytes(dtype: Any) -> int:
    if not _is_extended(dtype):
        return int(np.dtype(dtype).itemsize)
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    return int(data.size * data.dtype.itemsize)


def read_type(aval: Any) -> ValueType:
    """Return the type of a JAX abstract value, or of an array."""
    return ValueType(tuple(aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False)))


def as_type(value: Any, type_: ValueType) -> Any:
    """Return a value with the `weak_type` of a type, which inlining loses. Shape and dtype already agree."""
    if type_.is_key or bool(value.weak_type) == type_.weak_type:
        return value
    convert = primitives.convert_element_type_p
    return convert.bind(value, new_dtype=type_.dtype, weak_type=type_.weak_type, sharding=None)


def find_dtype(leaf: Any) -> Any:
    """Return the dtype that JAX gives a leaf, which is an array, its shape, or a Python number."""
    if isinstance(leaf, jax.Array):
        return leaf.dtype
    dtype = leaf.dtype if hasattr(leaf, "dtype") else jax.numpy.result_type(leaf)
    return dtype if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else jax.dtypes.canonicalize_dtype(dtype)


@dataclass(frozen=True)
class Literal:
    """A number in the program, as an operand."""

    value: np.ndarray[Any, Any]
    type: ValueType

    @property
    def number(self) -> int | float | complex:
        """The number as a Python number."""
        number: bool | int | float | complex = self.value.item()
        return int(number) if isinstance(number, bool) else number


Operand: TypeAlias = "int | Literal"
"""An operand of an equation: the number of a value in `Step.types`, or a literal."""


@dataclass(frozen=True)
class Equation:
    """A call of a primitive with its parameters and operands.

    Attributes
    ----------
    scope
        Path of the functions, named scopes and transformations around the equation.
    line
        Line of the user's program that created the equation.
    checkpoint
        If a `jax.checkpoint` computes the equation again in the backward pass, the number of that checkpoint. Its
        equations are kept apart by barriers; otherwise XLA would reuse the values of the forward pass.
    loops_summed
        The number of enclosing loops over which the equation's only result is summed, counted from the inside. The
        sum has the type `summed_dtype` and can be read after these loops.
    has_rows
        True if the innermost loop is not summed over. Each of its iterations then has a separate sum, over the
        iterations of the loops around it. A later loop reads these sums (`Loop.rows`).
    """

    primitive: Any
    params: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[int, ...]
    scope: str = ""
    line: Line = UNKNOWN_LINE
    checkpoint: int | None = None
    loops_summed: int = 0
    has_rows: bool = False
    summed_dtype: Any = None

    def __str__(self) -> str:
        call = f"{self.primitive.name}({', '.join(map(_show, self.inputs))})"
        return f"{', '.join(f'v{n}' for n in self.outputs)} {'+' if self.loops_summed else ''}= {call}"

    def evaluate(self, operands: Sequence[Any]) -> list[Any]:
        """Return the results for concrete operands, which include literals."""
        bind = partial(self.primitive.bind, **self.params)
        results = (jax.jit(bind) if self.primitive.name == "device_put" else bind)(*operands)
        return list(results) if self.primitive.multiple_results else [results]

    def compute(self, values: dict[int, Any]) -> None:
        """Compute the results and add them to `values`."""
        results = self.evaluate([read_operand(x, values) for x in self.inputs])
        if self.loops_summed:
            (number,) = self.outputs
            addend = results[0].astype(self.summed_dtype)
            results = [values[number] + addend if number in values else addend]
        values.update(zip(self.outputs, results, strict=True))

    def with_operands(self, others: Mapping[int, Operand]) -> Equation:
        """Return the equation with the operands in `others` replaced."""
        return replace(self, inputs=tuple(_exchange(x, others) for x in self.inputs))


@dataclass(frozen=True)
class LoopCarry:
    """A value that a loop passes from iteration to iteration.

    Within the loop, it is read as `value`. It is `first` in the first iteration, and the previous iteration's
    `following` in later ones. After the loop, `last` is the final value.
    """

    value: int
    first: Operand
    following: Operand
    last: int


@dataclass(frozen=True)
class Summed:
    """An equation whose result is summed over the iterations of loops, from the view of one of these loops.

    Attributes
    ----------
    is_row
        True if each iteration of the loop has a separate sum.
    is_last
        True if no loop around the loop sums the result too.
    rows
        If there is a separate sum for each iteration of the innermost loop, a tuple of their number. Otherwise empty.
    """

    equation: Equation
    is_row: bool
    is_last: bool
    rows: tuple[int, ...]

    @property
    def number(self) -> int:
        """The number of the summed value."""
        return self.equation.outputs[0]


@dataclass(frozen=True)
class Loop:
    """A loop of `length` iterations. If `reverse` is True, it starts with the last element of scanned values.

    `rows` lists values that an earlier loop of equal length has summed, with a separate sum for each iteration.
    """

    equations: tuple[Equation | Loop, ...]
    carries: tuple[LoopCarry, ...]
    length: int
    reverse: bool
    scope: str
    rows: tuple[int, ...] = ()

    def __str__(self) -> str:
        carried = (
            f"v{c.value} = {_show(c.first)} then {_show(c.following)}, at the end v{c.last}" for c in self.carries
        )
        lines = [f"{self.scope}: {self.length} times", *carried, *"\n".join(map(str, self.equations)).splitlines()]
        return "\n    ".join(lines)

    def without_constant_carries(self) -> Loop:
        """Return the loop without carries that never change. Their readers use the values from outside instead."""
        constant = {c.value: c.first for c in self.carries if c.following == c.value}
        if not constant:
            return self
        carries = tuple(replace(c, following=c.first) if c.value in constant else c for c in self.carries)
        return replace(self, carries=carries).with_operands(constant)

    def with_operands(self, others: Mapping[int, Operand]) -> Loop:
        """Return the loop with the operands in `others` replaced."""
        carries = tuple(
            replace(c, first=_exchange(c.first, others), following=_exchange(c.following, others)) for c in self.carries
        )
        return replace(self, equations=tuple(item.with_operands(others) for item in self.equations), carries=carries)

    def walk_sums(self, depth: int = 1) -> Iterator[Summed]:
        """Yield the equations in this loop whose results the loop sums, in total or for each iteration.

        `depth` is 1 for equations of the loop itself, and one more in each inner loop.
        """
        for item in self.equations:
            if isinstance(item, Loop):
                yield from item.walk_sums(depth + 1)
            elif item.loops_summed and depth <= item.loops_summed + item.has_rows:
                is_last = depth == item.loops_summed + item.has_rows
                yield Summed(item, item.has_rows and depth == 1, is_last, (self.length,) if item.has_rows else ())

    def compute(self, values: dict[int, Any]) -> None:
        """Run the loop and add all values to `values`. Within the loop, these are the values of the last iteration."""
        sums = list(self.walk_sums())
        for total in sums:
            if total.is_last:
                values.pop(total.number, None)
                values.pop(_rows_of(total.number), None)
        made = [total.number for total in sums if total.is_row]
        stacked: dict[int, list[Any]] = {}
        state = [read_operand(carry.first, values) for carry in self.carries]
        for t in reversed(range(self.length)) if self.reverse else range(self.length):
            values.update(zip((carry.value for carry in self.carries), state, strict=True))
            for number in (*made, *self.rows):
                values.pop(number, None)
                if t in (rows := values.get(_rows_of(number), {})):
                    values[number] = rows[t]
            for item in self.equations:
                if isinstance(item, Equation) and item.primitive is LOOP_CELL:
                    values[item.outputs[0]] = read_operand(item.inputs[0], values)[t]
                elif isinstance(item, Equation) and item.primitive is LOOP_STACK:
                    stacked.setdefault(item.outputs[0], []).append(read_operand(item.inputs[0], values))
                else:
                    item.compute(values)
            for number in made:
                values.setdefault(_rows_of(number), {})[t] = values[number]
            state = [read_operand(carry.following, values) for carry in self.carries]
        values.update(zip((carry.last for carry in self.carries), state, strict=True))
        values.update((whole, jax.numpy.stack(cells[:: -1 if self.reverse else 1])) for whole, cells in stacked.items())


def _rows_of(number: int) -> int:
    return -1 - number


@dataclass(frozen=True)
class Step:
    """A traced step.

    Values are numbered. `types` has the type of each value, and `constants` are arrays that the step closes over.
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
        return [x.type if isinstance(x, Literal) else self.types[x] for x in self.outputs]

    def compute_all(self, arguments: Sequence[Any]) -> dict[int, Any]:
        """Return every value of the step. Values within loops are those of the last iteration."""
        values: dict[int, Any] = dict(zip(self.inputs, arguments, strict=True)) | dict(self.constants)
        for item in self.equations:
            item.compute(values)
        return values

    def compute(self, arguments: Sequence[Any]) -> list[Any]:
        """Run the step on one device and return its results."""
        values = self.compute_all(arguments)
        return [read_operand(x, values) for x in self.outputs]

    def walk(self) -> Iterator[Equation]:
        """Yield all equations in order, including those of loops."""
        return walk_all(self.equations)


def walk_all(items: Sequence[Equation | Loop]) -> Iterator[Equation]:
    """Yield all equations in order, including those of loops."""
    for item in items:
        if isinstance(item, Loop):
            yield from walk_all(item.equations)
        else:
            yield item


def read_operand(operand: Operand, values: Mapping[int, Any]) -> Any:
    """Return the value of an operand."""
    return operand.value if isinstance(operand, Literal) else values[operand]


def _exchange(operand: Operand, others: Mapping[int, Operand]) -> Operand:
    return others.get(operand, operand) if isinstance(operand, int) else operand


def _show(operand: Operand) -> str:
    return str(operand.value) if isinstance(operand, Literal) else f"v{operand}"
