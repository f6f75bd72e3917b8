"""The expressions that a description is built from (section 4.1).

    Index  ::= an integer expression over index variables and extents, affine in the index variables
    Value  ::= Constant | Position(Index) | Element(tensor, indices) | Call(function, values)
             | Reduction(reducer, variables, value) | OpaqueElement(function, arguments, indices)
             | RandomElement(values) | Unread(element)
    indices are Index, WholeDimension or AnyOf; arguments are Value or TensorSlice.

An *extent* is a length in elements. SymPy simplifies indices. Values are trees without side effects, compared by
identity. Python operators such as `+` build a `Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias
from typing import Any as Anything

import sympy

from tofu.errors import DescriptionError, NotAffineError
from tofu.tdl.place import Place, find_place

if TYPE_CHECKING:
    from tofu.tdl.tensor import Tensor

PAPER = "(paper section 4.2, Figure 4)"


class VariableSymbol(sympy.Symbol):  # type: ignore[misc]
    """The SymPy symbol of an index variable, such as i in `t[i, j]`."""


class ExtentSymbol(sympy.Symbol):  # type: ignore[misc]
    """The SymPy symbol of a length, such as `x.shape[1]` or the extent of an index variable."""


def variable_symbol(name: str) -> VariableSymbol:
    """Return the symbol of the index variable `name`, such as i in `t[i, j]`."""
    return VariableSymbol(name, integer=True, nonnegative=True)


def extent_symbol(name: str) -> ExtentSymbol:
    """Return the symbol of the extent `name`, for example "data.shape[1]"."""
    return ExtentSymbol(name, integer=True, positive=True)


def _make_operator(function: str, is_reflected: bool = False) -> Callable[..., Anything]:
    def apply(*operands: Operand) -> Value:
        return call(function, *(reversed(operands) if is_reflected else operands))

    return apply


class ArithmeticOperators:
    """Python's operators (+, <, ...), which build expressions."""

    __hash__ = object.__hash__
    __add__, __radd__ = _make_operator("add"), _make_operator("add", is_reflected=True)
    __sub__, __rsub__ = _make_operator("subtract"), _make_operator("subtract", is_reflected=True)
    __mul__, __rmul__ = _make_operator("multiply"), _make_operator("multiply", is_reflected=True)
    __truediv__, __rtruediv__ = _make_operator("divide"), _make_operator("divide", is_reflected=True)
    __pow__, __rpow__ = _make_operator("power"), _make_operator("power", is_reflected=True)
    __floordiv__, __mod__ = _make_operator("floor_divide"), _make_operator("mod")
    __neg__, __abs__ = _make_operator("negative"), _make_operator("absolute")
    __lt__, __le__ = _make_operator("less"), _make_operator("less_equal")
    __gt__, __ge__ = _make_operator("greater"), _make_operator("greater_equal")
    __eq__, __ne__ = _make_operator("equal"), _make_operator("not_equal")
    __and__, __or__, __invert__ = (
        _make_operator("logical_and"),
        _make_operator("logical_or"),
        _make_operator("logical_not"),
    )

    def __bool__(self) -> bool:
        raise DescriptionError(
            f"{find_place()}: a traced value has no truth value; choose between values with where(condition, a, b)"
        )


class Index(ArithmeticOperators):
    """An integer expression such as `2 * i + j` over index variables and extents.

    +, -, *, and // without a remainder return an index. Other operators return a number (`Value`).
    """

    def __init__(self, expression: sympy.Expr) -> None:
        self.expression = expression

    @property
    def variables(self) -> frozenset[str]:
        """The names of the index variables in this expression. Empty if it has only lengths and numbers."""
        return frozenset(s.name for s in self.expression.free_symbols if isinstance(s, VariableSymbol))

    @property
    def extent(self) -> Index:
        """The number of values of this index variable."""
        if not isinstance(self.expression, VariableSymbol):
            raise DescriptionError(f"{find_place()}: {self} is not an index variable, so it has no extent")
        return Index(extent_symbol(f"{self.expression.name}.extent"))

    def __add__(self, other: Operand) -> Value | Index:
        return Index(self.expression + _as_expression(other)) if _is_index(other) else call("add", self, other)

    def __radd__(self, other: Operand) -> Value | Index:
        return Index(_as_expression(other) + self.expression) if _is_index(other) else call("add", other, self)

    def __sub__(self, other: Operand) -> Value | Index:
        return Index(self.expression - _as_expression(other)) if _is_index(other) else call("subtract", self, other)

    def __rsub__(self, other: Operand) -> Value | Index:
        return Index(_as_expression(other) - self.expression) if _is_index(other) else call("subtract", other, self)

    def __mul__(self, other: Operand) -> Value | Index:
        if not _is_index(other):
            return call("multiply", self, other)
        factor = as_index(other)
        if self.variables and factor.variables:
            _refuse(f"{_format_factor(self)} times {_format_factor(factor)} is a product of index variables")
        return Index(sympy.expand(self.expression * factor.expression))

    def __rmul__(self, other: Operand) -> Value | Index:
        return self * other if _is_index(other) else call("multiply", other, self)

    def __neg__(self) -> Value | Index:
        return Index(-self.expression)

    def __floordiv__(self, other: Operand) -> Value | Index:
        if not _is_index(other):
            return call("floor_divide", self, other)
        divisor = as_index(other)
        if divisor.variables:
            _refuse(f"{_format_factor(self)} // {_format_factor(divisor)} divides by an index variable")
        if not self.variables:
            return Index(sympy.floor(self.expression / divisor.expression))
        quotient = sympy.expand(self.expression / divisor.expression)
        terms = sympy.Add.make_args(quotient)
        if not all(sympy.fraction(sympy.together(term))[1] == 1 for term in terms):
            _refuse(f"{_format_factor(self)} // {_format_factor(divisor)} is not an exact division")
        return Index(quotient)

    def __rfloordiv__(self, other: Operand) -> Value | Index:
        return as_index(other) // self

    def __mod__(self, other: Operand) -> Value | Index:
        if not _is_index(other):
            return call("mod", self, other)
        if self.variables or as_index(other).variables:
            _refuse(f"{_format_factor(self)} % {_format_factor(as_index(other))} is a remainder of index variables")
        return Index(sympy.Mod(self.expression, _as_expression(other)))

    def __index__(self) -> int:
        raise DescriptionError(
            f"{find_place()}: {self} is symbolic: a description is traced once for all shapes. If the "
            "numbers decide what the operator does, register it with op(..., concrete=True)"
        )

    __int__ = __index__
    __float__ = __index__

    def __iter__(self) -> Iterator[NoReturn]:
        raise DescriptionError(f"{find_place()}: {self} is one index and cannot be unpacked")

    def __repr__(self) -> str:
        return str(self.expression)


class Value(ArithmeticOperators):
    """A formula for a number that depends on index variables."""

    def __getitem__(self, key: object) -> NoReturn:
        raise DescriptionError(
            f"{find_place()}: only tensors and results of opaque functions are indexed, not {self!r}"
        )


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """A constant number, for example an operator's attribute."""

    number: float | complex


@dataclass(frozen=True, eq=False)
class Position(Value):
    """An index that is used as a number, as in `i * data[i]`."""

    index: Index


@dataclass(frozen=True, eq=False)
class WholeDimension:
    """An index that depends on data, such as a row of an embedding. It is written `Any` in descriptions.

    The analysis assumes that the operator reads the whole dimension. `Any(value)` states the index, so that
    `tofu.tdl.interpreter` can compute the formula.
    """

    position: Value | None = None

    def __call__(
        self, position: Operand, first: Index | int | None = None, extent: Index | int | None = None
    ) -> WholeDimension | AnyOf:
        """Return the index `position`, which depends on data.

        If `first` and `extent` are passed, the index is `first + position`, and the operator reads `extent` elements
        from `first` on.
        """
        if first is None and extent is None:
            return WholeDimension(as_value(position))
        if first is None or extent is None:
            raise DescriptionError(f"{find_place()}: Any takes both first= and extent=, or neither")
        return AnyOf(as_value(position), as_index(first), as_index(extent))


Any = WholeDimension()


@dataclass(frozen=True, eq=False)
class AnyOf:
    """An index `first + position` with `0 <= position < extent`. `position` depends on data.

    It is written `Any(position, first, extent)` in descriptions.
    """

    position: Value
    first: Index
    extent: Index

    @property
    def last(self) -> Index:
        """The largest possible index."""
        return Index(self.first.expression + self.extent.expression - 1)

    @property
    def variables(self) -> frozenset[str]:
        """The names of the index variables in `self.first`, the smallest possible index."""
        return self.first.variables


AnyIndex: TypeAlias = Index | WholeDimension | AnyOf
"""The index of one dimension in a read of a tensor."""


@dataclass(frozen=True, eq=False)
class Element(Value):
    """One element of a tensor, such as `t[i, j + 1]`."""

    tensor: Tensor
    indices: tuple[AnyIndex, ...]


@dataclass(frozen=True, eq=False)
class TensorSlice:
    """A slice such as `t[b, :, :]`, as an argument of an opaque function. `indices` has None for `:`."""

    tensor: Tensor
    indices: tuple[AnyIndex | None, ...]


@dataclass(frozen=True, eq=False)
class Call(Value):
    """An element-wise function of values, such as `exp(x)` or `x + y`."""

    function: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Reduction(Value):
    """A sum, maximum, minimum or product over index variables. `extents` has declared lengths of these variables."""

    reducer: str
    variables: tuple[str, ...]
    body: Value
    extents: dict[str, Index]
    place: Place


@dataclass(frozen=True, eq=False)
class OpaqueElement(Value):
    """One element that an opaque function (a function without a formula) computes."""

    function: Callable[..., object] | None
    name: str
    arguments: tuple[Value | TensorSlice, ...]
    indices: tuple[Index, ...]


@dataclass(frozen=True, eq=False)
class RandomElement(Value):
    """A random number for each output element. Its distribution may depend on `arguments`."""

    arguments: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Unread(Value):
    """An element that the kernel never reads. It counts as zero."""

    element: Element


Operand: TypeAlias = Value | Index | int | float | ArithmeticOperators


def call(function: str, *operands: Operand) -> Value:
    """Return the element-wise `function` of `operands`."""
    _refuse_comparison(function, operands)
    return Call(function, tuple(as_value(operand) for operand in operands))


def as_value(operand: object) -> Value:
    """Convert a number, or an index such as `2 * i`, to a `Value`."""
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, Index):
        return Position(operand)
    if isinstance(operand, (bool, int, float)):
        return Constant(float(operand))
    if isinstance(operand, complex):
        return Constant(operand)
    raise DescriptionError(
        f"{find_place()}: {operand!r} is not a value (a number, a tensor's element, or an expression of them)"
    )


def as_index(operand: object) -> Index:
    """Convert an integer to an `Index`."""
    if isinstance(operand, Index):
        return operand
    if isinstance(operand, int):
        return Index(sympy.Integer(operand))
    raise NotAffineError(
        f"{find_place()}: {operand!r} is not an index (an integer expression of index variables and extents)"
    )


_COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


def _refuse_comparison(function: str, operands: tuple[Operand, ...]) -> None:
    if function in _COMPARISONS and all(isinstance(o, Index) and o.variables for o in operands):
        _refuse(
            f"{operands[0]} is compared with {operands[1]}, both of them index expressions",
            "position(i) for one of them",
        )


def _refuse(problem: str, remedy: str = "Any instead, which reads the whole dimension") -> NoReturn:
    raise NotAffineError(
        f"{find_place()}: {problem}; interval analysis covers affine index expressions only {PAPER}. Write {remedy}"
    )


def _format_factor(index: Index) -> str:
    return f"({index})" if index.expression.is_Add else str(index)


def _is_index(operand: object) -> bool:
    return isinstance(operand, (Index, int)) and not isinstance(operand, bool)


def _as_expression(operand: object) -> sympy.Expr:
    return as_index(operand).expression
