"""A step as a list of equations and loops: what remains of a jaxpr when calls are inlined."""

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
"""Stands in a loop's body for the cell of a scanned value that a step of the loop is about: whole -> whole[t]."""
LOOP_STACK = Primitive("loop_stack")
"""Stands in a loop's body for putting together what its steps give: cell -> whole, whose cell t it is."""


@dataclass(frozen=True)
class ValueType:
    """The type of a value. `dtype` is JAX's own, which may be that of random keys."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False

    @property
    def is_key(self) -> bool:
        """Whether it is a random key, which has no numbers."""
        return _is_extended(self.dtype)

    @property
    def dtype_name(self) -> str:
        """The name of `dtype`."""
        return _name(self.dtype)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element; of a key, those of its data."""
        return _count_item_bytes(self.dtype)

    def with_shape(self, *shape: int) -> ValueType:
        """The same type with another shape."""
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
    """The type of an abstract value, or of an array."""
    return ValueType(tuple(aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False)))


def as_type(value: Any, type_: ValueType) -> Any:
    """A value with the type's own `weak_type`, which inlined equations do not keep; its shape and dtype are those of the type."""
    if type_.is_key or bool(value.weak_type) == type_.weak_type:
        return value
    convert = primitives.convert_element_type_p
    return convert.bind(value, new_dtype=type_.dtype, weak_type=type_.weak_type, sharding=None)


def find_dtype(leaf: Any) -> Any:
    """The type that JAX gives a leaf of an argument: an array of JAX's or NumPy's, their shape, or a number of Python's."""
    if isinstance(leaf, jax.Array):
        return leaf.dtype
    dtype = leaf.dtype if hasattr(leaf, "dtype") else jax.numpy.result_type(leaf)
    return dtype if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else jax.dtypes.canonicalize_dtype(dtype)


@dataclass(frozen=True)
class Literal:
    """A number in the place of an operand."""

    value: np.ndarray[Any, Any]
    type: ValueType

    @property
    def number(self) -> int | float | complex:
        """It as Python's."""
        number: bool | int | float | complex = self.value.item()
        return int(number) if isinstance(number, bool) else number


Operand: TypeAlias = "int | Literal"
"""The number of a value, or a literal."""


@dataclass(frozen=True)
class Equation:
    """A primitive with its parameters.

    Attributes
    ----------
    scope
        Functions, named scopes and transformations around it, as a path.
    line
        The line of the user's program that made it.
    checkpoint
        The number of the `jax.checkpoint` that computes it again in the backward pass, None outside of any. What lowers the step has to
        keep the equations of one apart, or XLA finds that they were computed before.
    loops_summed
        Of how many of the loops around it, the inner ones, its only result is the sum over their steps, which is there behind them, and
        added up in `summed_dtype`.
    has_rows
        The innermost loop is none of these: each of its steps has a sum of its own, over the steps of those around it. A loop behind them
        reads these sums (`Loop.rows`).
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
        """The results for concrete operands, literals among them."""
        bind = partial(self.primitive.bind, **self.params)
        results = (jax.jit(bind) if self.primitive.name == "device_put" else bind)(
            *operands
        )  # JAX wants the first under jit
        return list(results) if self.primitive.multiple_results else [results]

    def compute(self, values: dict[int, Any]) -> None:
        """Adds its results to the values that are known."""
        results = self.evaluate([read_operand(x, values) for x in self.inputs])
        if self.loops_summed:
            (number,) = self.outputs
            own = results[0].astype(self.summed_dtype)
            results = [values[number] + own if number in values else own]
        values.update(zip(self.outputs, results, strict=True))

    def with_operands(self, others: Mapping[int, Operand]) -> Equation:
        """The same with other operands in the place of some."""
        return replace(self, inputs=tuple(_exchange(x, others) for x in self.inputs))


@dataclass(frozen=True)
class LoopCarry:
    """What a loop hands from step to step: `value`, in its body, is `first` and then what `following` was; `last` is that at the end."""

    value: int
    first: Operand
    following: Operand
    last: int


@dataclass(frozen=True)
class Summed:
    """An equation whose result is a sum over steps of loops, as one of these sees it.

    Attributes
    ----------
    is_row
        It is no sum over the steps of this loop: each has its own.
    is_last
        It is no sum over the steps of a loop around this one.
    rows
        The extent of what holds a sum for each step of the innermost loop, where each has its own; else empty.
    """

    equation: Equation
    is_row: bool
    is_last: bool
    rows: tuple[int, ...]

    @property
    def number(self) -> int:
        """The value that is summed."""
        return self.equation.outputs[0]


@dataclass(frozen=True)
class Loop:
    """A loop of `length` steps over its equations, from the last cell of what is scanned to the first where it is `reverse`.

    `rows`: sums of which each step has its own, made in a loop before, of as many steps.
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
        """The same where the body reads what a carry is in every step as the value from outside that it is."""
        constant = {c.value: c.first for c in self.carries if c.following == c.value}
        if not constant:
            return self
        carries = tuple(replace(c, following=c.first) if c.value in constant else c for c in self.carries)
        return replace(self, carries=carries).with_operands(constant)

    def with_operands(self, others: Mapping[int, Operand]) -> Loop:
        """The same with other operands in the place of some."""
        carries = tuple(
            replace(c, first=_exchange(c.first, others), following=_exchange(c.following, others)) for c in self.carries
        )
        return replace(self, equations=tuple(item.with_operands(others) for item in self.equations), carries=carries)

    def walk_sums(self, depth: int = 1) -> Iterator[Summed]:
        """The equations within it whose results are sums over its steps, or of each of its steps. It is the one of so much `depth`, counted
        from the inside, of the loops around its equations.
        """
        for item in self.equations:
            if isinstance(item, Loop):
                yield from item.walk_sums(depth + 1)
            elif item.loops_summed and depth <= item.loops_summed + item.has_rows:
                is_last = depth == item.loops_summed + item.has_rows
                yield Summed(item, item.has_rows and depth == 1, is_last, (self.length,) if item.has_rows else ())

    def compute(self, values: dict[int, Any]) -> None:
        """Adds the values of its equations, those of its last step where they have one in each, to those that are known."""
        sums = list(self.walk_sums())
        for one in sums:
            if one.is_last:
                values.pop(one.number, None)
                values.pop(_rows_of(one.number), None)
        made = [one.number for one in sums if one.is_row]
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
    """Where `compute` has the sums of a value of which each step of a loop has its own: step -> sum."""
    return -1 - number


@dataclass(frozen=True)
class Step:
    """A step: values are numbered, and `types` has the type of each. `constants` are those that the program brings along."""

    types: tuple[ValueType, ...]
    equations: tuple[Equation | Loop, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Operand, ...]
    constants: Mapping[int, Any]

    def __str__(self) -> str:
        return "\n".join(map(str, self.equations))

    @property
    def result_types(self) -> list[ValueType]:
        """The types of the results."""
        return [x.type if isinstance(x, Literal) else self.types[x] for x in self.outputs]

    def compute_all(self, arguments: Sequence[Any]) -> dict[int, Any]:
        """Every value, equation by equation; of what a loop computes in each of its steps, that of the last one."""
        values: dict[int, Any] = dict(zip(self.inputs, arguments, strict=True)) | dict(self.constants)
        for item in self.equations:
            item.compute(values)
        return values

    def compute(self, arguments: Sequence[Any]) -> list[Any]:
        """The results: to compare with those of the step as it was written."""
        values = self.compute_all(arguments)
        return [read_operand(x, values) for x in self.outputs]

    def walk(self) -> Iterator[Equation]:
        """All equations, those of loops among them, in order."""
        return walk_all(self.equations)


def walk_all(items: Sequence[Equation | Loop]) -> Iterator[Equation]:
    """All equations among these, those of loops too, in order."""
    for item in items:
        if isinstance(item, Loop):
            yield from walk_all(item.equations)
        else:
            yield item


def read_operand(operand: Operand, values: Mapping[int, Any]) -> Any:
    """The value of an operand, where those of numbered values are known."""
    return operand.value if isinstance(operand, Literal) else values[operand]


def _exchange(operand: Operand, others: Mapping[int, Operand]) -> Operand:
    return others.get(operand, operand) if isinstance(operand, int) else operand


def _show(operand: Operand) -> str:
    return str(operand.value) if isinstance(operand, Literal) else f"v{operand}"
