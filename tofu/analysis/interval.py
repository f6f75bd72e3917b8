"""Symbolic intervals: the ranges of index expressions (section 4.2, Figure 4).

An interval [lower, upper] includes both ends. The ends are affine in the extents X_i of the index variables:

    lower = sum_i l_i X_i + c,   upper = sum_i u_i X_i + c'

A coefficient may be a product of extents, as in the row-major position g * CO + co. The paper has continuous intervals
[0, X] with one constant. Here, indices are integers, so the upper end is X - 1, and each end has its own constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import sympy

from tofu.errors import NotAffineError
from tofu.tdl.expression import ExtentSymbol, Index, VariableSymbol, extent_symbol


@dataclass(frozen=True)
class Interval:
    """All integers from `lower` to `upper`, both included."""

    lower: sympy.Expr
    upper: sympy.Expr

    @classmethod
    def single_point(cls, at: sympy.Expr | int) -> Interval:
        """Return the interval that contains only the number `at`."""
        return cls(sympy.sympify(at), sympy.sympify(at))

    @classmethod
    def whole_range(cls, variable: str) -> Interval:
        """Return [0, X - 1], where X is the extent of the index variable. The paper writes it ZV[u = 1]."""
        return cls.part(variable, 0, 1)

    @classmethod
    def part(cls, variable: str, begin: sympy.Expr | int, end: sympy.Expr | int) -> Interval:
        """Return a part of an index variable's range, from fraction `begin` to fraction `end` (0 to 1/2 is the first half)."""
        extent = extent_symbol(f"{variable}.extent")
        return cls(sympy.sympify(begin) * extent, sympy.sympify(end) * extent - 1)

    def __add__(self, other: Interval | sympy.Expr | int) -> Interval:
        if isinstance(other, Interval):
            return Interval(sympy.expand(self.lower + other.lower), sympy.expand(self.upper + other.upper))
        return Interval(sympy.expand(self.lower + other), sympy.expand(self.upper + other))

    def __sub__(self, other: Interval | sympy.Expr | int) -> Interval:
        return self + (-other)

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __mul__(self, factor: sympy.Expr | int) -> Interval:
        if isinstance(factor, Interval):
            _refuse("the product of two intervals")
        factor = sympy.sympify(factor)
        if not (factor.is_nonnegative or factor.is_nonpositive):
            _refuse(f"a product with {factor}, whose sign is not known,")
        ends = (self.lower, self.upper) if factor.is_nonnegative else (self.upper, self.lower)
        return Interval(*(sympy.expand(end * factor) for end in ends))

    def __truediv__(self, divisor: sympy.Expr | int) -> Interval:
        if isinstance(divisor, Interval):
            _refuse("the quotient of two intervals")
        return self.__mul__(1 / sympy.sympify(divisor))

    def __lt__(self, other: object) -> NoReturn:
        _refuse("the comparison of two intervals")

    __le__ = __gt__ = __ge__ = __lt__

    def vector(self, extents: Sequence[ExtentSymbol]) -> tuple[sympy.Expr, ...]:
        """Return the coefficients <l_1 ... l_n, u_1 ... u_n, c, c'> for these extents."""
        zeros = dict.fromkeys(extents, 0)
        lower = tuple(self.lower.coeff(extent) for extent in extents)
        upper = tuple(self.upper.coeff(extent) for extent in extents)
        return (*lower, *upper, self.lower.subs(zeros), self.upper.subs(zeros))

    def __repr__(self) -> str:
        return f"[{self.lower}, {self.upper}]"


@dataclass(frozen=True)
class AffineIndex:
    """An index as a sum of terms such as 2 * i. `terms` maps each index variable to its coefficient."""

    terms: Mapping[str, sympy.Expr]
    constant: sympy.Expr

    def infer_interval(self, ranges: Mapping[str, Interval] | None = None) -> Interval:
        """Return the interval of the index, if each variable has the range in `ranges`, or else its whole range."""
        interval = Interval.single_point(self.constant)
        for name, coefficient in self.terms.items():
            interval = interval + (ranges or {}).get(name, Interval.whole_range(name)) * coefficient
        return interval

    def without(self, names: set[str] | frozenset[str]) -> AffineIndex:
        """Return the index without the terms of the variables `names`."""
        return AffineIndex({n: c for n, c in self.terms.items() if n not in names}, self.constant)


def split_affine(index: Index) -> AffineIndex:
    """Convert an index to a sum of terms. Raise NotAffineError for an index such as i * j."""
    terms: dict[str, sympy.Expr] = {}
    constant = sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand(index.expression)):
        variables = [symbol for symbol in term.free_symbols if isinstance(symbol, VariableSymbol)]
        if not variables:
            constant += term
            continue
        coefficient = term / variables[0]
        if any(isinstance(symbol, VariableSymbol) for symbol in coefficient.free_symbols):
            _refuse(f"{index}")
        name = variables[0].name
        terms[name] = terms.get(name, sympy.Integer(0)) + coefficient
    return AffineIndex(terms, constant)


def _refuse(expression: str) -> NoReturn:
    raise NotAffineError(f"{expression} is outside interval arithmetic, which is affine (paper section 4.2, Figure 4)")
