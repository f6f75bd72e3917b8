"""Evaluate the symbolic lengths and indices of a description at given shapes.

The expressions of an operator are compiled to one Python function, about a thousand times faster than SymPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy

from tofu.analysis.interval import AffineIndex
from tofu.analysis.symbolic import Pattern
from tofu.errors import DescriptionError
from tofu.tdl.expression import ExtentSymbol, extent_symbol


class IndexNumbers(NamedTuple):
    """An index at given shapes.

    For 2 * i + k with 0 <= k <= 2, `terms` is (("i", 2),), `lower` is 0, and `upper` is 2.
    """

    terms: tuple[tuple[str, int], ...]
    lower: int
    upper: int


@dataclass(frozen=True)
class SignatureNumbers:
    """The lengths and indices in a description, as numbers for given shapes.

    Attributes
    ----------
    extents
        The length (number of values) of each index variable.
    definitions
        Pairs of an index variable and its length. A variable that indexes several dimensions has several pairs.
    dimensions
        The indices that access each dimension of the inputs, then of the outputs.
    """

    extents: Mapping[str, int]
    definitions: tuple[tuple[str, int], ...]
    dimensions: tuple[tuple[IndexNumbers, ...], ...]


class Evaluator:
    """Evaluates the lengths and indices in an operator's formula at given shapes.

    `dimensions` has the indices that access each dimension of the inputs, then of the outputs.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self.dimensions = [dimension for read in pattern.inputs for dimension in read.dimensions]
        self.dimensions += [dimension for written in pattern.outputs for dimension in written.dimensions]
        self._expressions: list[sympy.Expr] = []
        self._axes_by_dimension = [
            [self._compile_index(index) for index in dimension.indices] for dimension in self.dimensions
        ]
        definitions = [
            (name, definition.extent)
            for name, definitions in pattern.trace.definitions.items()
            for definition in definitions
        ]
        self._defined_names = [name for name, _ in definitions]
        self._evaluate = _compile(pattern, [extent for _, extent in definitions], self._expressions)

    def _compile_index(self, index: AffineIndex) -> tuple[str, ...]:
        axes = tuple(name for name in index.terms if name not in self._pattern.rejected)
        self._expressions += [*(index.terms[name] for name in axes), *index.without(axes).infer_interval()]
        return axes

    def evaluate(self, sizes: Sequence[int], overrides: Mapping[str, int] | None = None) -> SignatureNumbers:
        """Evaluate the symbolic lengths and indices for tensors whose dimensions have the lengths `sizes`.

        `overrides` replaces the lengths of some index variables. Raises DescriptionError if a length is not an integer.
        """
        try:
            extents, definitions, values = self._evaluate(sizes, overrides or {})
        except _RemainderError as error:
            description = self._pattern.trace.description
            raise DescriptionError(f"{description.place}: {description.name}: {error}") from None
        remaining_values = iter(values)
        dimensions = tuple(
            tuple(
                IndexNumbers(
                    tuple((axis, next(remaining_values)) for axis in axes),
                    next(remaining_values),
                    next(remaining_values),
                )
                for axes in axes_by_index
            )
            for axes_by_index in self._axes_by_dimension
        )
        return SignatureNumbers(
            dict(zip(self._pattern.variables, extents, strict=True)),
            tuple(zip(self._defined_names, definitions, strict=True)),
            dimensions,
        )


_Evaluated = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _compile(
    pattern: Pattern, definitions: Sequence[sympy.Expr], expressions: Sequence[sympy.Expr]
) -> Callable[[Sequence[int], Mapping[str, int]], _Evaluated]:
    trace = pattern.trace
    tensor_extents = [extent for tensor in trace.tensors for extent in tensor.extents]
    tensor_extents += [extent for output in trace.output_extents for extent in output]
    code_by_symbol: dict[ExtentSymbol, str] = {symbol: f"s{n}" for n, symbol in enumerate(tensor_extents)}
    code_by_variable = {name: f"x{n}" for n, name in enumerate(trace.definitions)}
    code_by_symbol |= {extent_symbol(f"{name}.extent"): code for name, code in code_by_variable.items()}
    lines = ["def evaluate(sizes, overrides):"]
    if tensor_extents:
        lines.append(f"    {', '.join(code_by_symbol[symbol] for symbol in tensor_extents)}, = sizes")
    for name in trace.order_variables():
        code = _write_expression(trace.definitions[name][0].extent, code_by_symbol)
        lines.append(f"    {code_by_variable[name]} = overrides[{name!r}] if {name!r} in overrides else {code}")
    results = [
        list(code_by_variable.values()),
        [_write_expression(d, code_by_symbol) for d in definitions],
        [_write_expression(e, code_by_symbol) for e in expressions],
    ]
    lines.append(f"    return {', '.join(map(_write_tuple, results))}")
    namespace: dict[str, Any] = {"divide": _divide}
    exec(compile("\n".join(lines), f"<extents of {trace.description.name}>", "exec"), namespace)
    evaluate: Callable[[Sequence[int], Mapping[str, int]], _Evaluated] = namespace["evaluate"]
    return evaluate


def _write_tuple(items: Sequence[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"


def _write_expression(expression: sympy.Expr, code_by_symbol: Mapping[ExtentSymbol, str]) -> str:

    def write(operand: sympy.Expr) -> str:
        return _write_expression(operand, code_by_symbol)

    if expression.is_Integer:
        return str(int(expression))
    if expression in code_by_symbol:
        return code_by_symbol[expression]
    if isinstance(expression, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expression.args[0]))
        return f"(({write(numerator)}) // ({write(denominator)}))"
    if isinstance(expression, sympy.Mod):
        dividend, divisor = expression.args
        return f"(({write(dividend)}) % ({write(divisor)}))"
    numerator, denominator = sympy.fraction(sympy.together(expression))
    if denominator != 1:
        return f"divide({write(numerator)}, {write(denominator)}, {str(expression)!r})"
    if expression.is_Add:
        return f"({' + '.join(map(write, expression.args))})"
    if expression.is_Mul:
        return f"({' * '.join(map(write, expression.args))})"
    if expression.is_Pow and expression.exp.is_Integer:
        return f"({write(expression.base)} ** {int(expression.exp)})"
    raise DescriptionError(f"the extent {expression} is not an expression of extents that can be evaluated")


class _RemainderError(Exception):
    pass


def _divide(numerator: int, denominator: int, text: str) -> int:
    if denominator == 0 or numerator % denominator:
        raise _RemainderError(f"{text} = {numerator} / {denominator} is not an integer")
    return numerator // denominator
