"""Symbolic intervals: the ranges of index expressions (section 4.2, Figure 4).

An interval [lower, upper] includes both ends. The ends are affine in the extents X_i of the index variables:

    lower = sum_i l_i X_i + c,   upper = sum_i u_i X_i + c'

A coefficient may be a product of extents, as in the row-major position g * CO + co. Unlike in the paper, indices are
integers, so the upper end of i is X_i - 1. Each end has its own constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

import sympy

from tofu.errors import NotAffineError
from tofu.tdl.expression import Index, VariableSymbol, extent_symbol


@dataclass(frozen=True)
class AffineIndex:
    """An index as a sum of terms such as 2 * i. `terms` maps each index variable to its coefficient."""

    terms: Mapping[str, sympy.Expr]
    constant: sympy.Expr

    def infer_interval(self) -> tuple[sympy.Expr, sympy.Expr]:
        """Return the smallest and the largest possible value of the index."""
        lower, upper = self.constant, self.constant
        for name, coefficient in self.terms.items():
            reach = coefficient * (extent_symbol(f"{name}.extent") - 1)
            if coefficient.is_nonnegative:
                upper += reach
            elif coefficient.is_nonpositive:
                lower += reach
            else:
                _refuse(f"a product with {coefficient}, whose sign is not known,")
        return sympy.expand(lower), sympy.expand(upper)

    def without(self, names: Collection[str]) -> AffineIndex:
        """Return the index without some variables: without k, `2 * i + k + 1` is `2 * i + 1`."""
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
