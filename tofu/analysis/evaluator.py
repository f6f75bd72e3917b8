"""Fast evaluation of a description's symbolic extents and indices at concrete shapes.

The expressions of one signature are compiled to a Python function of the shapes. A call takes microseconds, while
substitution in SymPy takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy

from tofu.analysis.interval import AffineIndex, Interval
from tofu.analysis.symbolic import Dimension, Pattern
from tofu.errors import DescriptionError
from tofu.tdl.expression import ExtentSymbol, extent_symbol


class IndexNumbers(NamedTuple):
    """Affine index at concrete extents: the coefficients of the axes, and the inclusive range of all other terms."""

    terms: tuple[tuple[str, int], ...]
    lower: int
    upper: int


@dataclass(frozen=True)
class SignatureNumbers:
    """Values of a signature's expressions at concrete shapes. `dimensions` lists the inputs' dimensions, then the outputs'."""

    extents: Mapping[str, int]
    definitions: tuple[tuple[str, int], ...]
    dimensions: tuple[tuple[IndexNumbers, ...], ...]


class Evaluator:
    """Evaluator of a `Pattern` at concrete shapes."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._layout = [dimension for read in pattern.inputs for dimension in read.dimensions]
        self._layout += [dimension for written in pattern.outputs for dimension in written.dimensions]
        self._terms: list[list[tuple[str, ...]]] = []
        self._expressions: list[sympy.Expr] = []
        for dimension in self._layout:
            self._terms.append([self._add_index(index) for index in dimension.indices])
        self._axes = pattern.variables
        self._definitions = [
            (name, definition) for name, known in pattern.trace.definitions.items() for definition in known
        ]
        self._function = _compile(pattern, [d.extent for _, d in self._definitions], self._expressions)

    def _add_index(self, index: AffineIndex) -> tuple[str, ...]:
        axes = tuple(name for name in index.terms if name not in self._pattern.rejected)
        rest: Interval = index.without(frozenset(axes)).infer_interval()
        self._expressions += [*(index.terms[name] for name in axes), rest.lower, rest.upper]
        return axes

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """The symbolic dimensions, in the order of `SignatureNumbers.dimensions`."""
        return self._layout

    def evaluate(self, sizes: Sequence[int], overrides: Mapping[str, int] | None = None) -> SignatureNumbers:
        """Return the values at `sizes`, the extents of all dimensions of the inputs, then of the outputs.

        `overrides` replaces the extents of some index variables. Raises DescriptionError if an extent is not an integer.
        """
        try:
            extents, definitions, values = self._function(sizes, overrides or {})
        except _NoIntegerError as problem:
            description = self._pattern.trace.description
            raise DescriptionError(f"{description.place}: {description.name}: {problem}") from None
        position = 0
        dimensions = []
        for indices in self._terms:
            numbers = []
            for axes in indices:
                end = position + len(axes)
                numbers.append(
                    IndexNumbers(tuple(zip(axes, values[position:end], strict=True)), values[end], values[end + 1])
                )
                position = end + 2
            dimensions.append(tuple(numbers))
        names = (name for name, _ in self._definitions)
        return SignatureNumbers(
            dict(zip(self._axes, extents, strict=True)), tuple(zip(names, definitions, strict=True)), tuple(dimensions)
        )


_Evaluated = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _compile(
    pattern: Pattern, definitions: Sequence[sympy.Expr], expressions: Sequence[sympy.Expr]
) -> Callable[[Sequence[int], Mapping[str, int]], _Evaluated]:
    """Compile a function of `sizes` and `overrides` that returns the extents, definitions and expressions."""
    trace = pattern.trace
    dimensions = [extent for tensor in trace.tensors for extent in tensor.extents]
    dimensions += [extent for output in trace.output_extents for extent in output]
    names: dict[ExtentSymbol, str] = {symbol: f"s{n}" for n, symbol in enumerate(dimensions)}
    variables = {name: f"x{n}" for n, name in enumerate(trace.definitions)}
    names |= {extent_symbol(f"{name}.extent"): code for name, code in variables.items()}
    lines = ["def evaluate(sizes, overrides):"]
    if dimensions:
        lines.append(f"    {', '.join(names[symbol] for symbol in dimensions)}, = sizes")
    for name in _in_order(pattern):
        code = _print(trace.definitions[name][0].extent, names)
        lines.append(f"    {variables[name]} = overrides[{name!r}] if {name!r} in overrides else {code}")
    results = [
        list(variables.values()),
        [_print(d, names) for d in definitions],
        [_print(e, names) for e in expressions],
    ]
    lines.append(f"    return {', '.join(map(_print_tuple, results))}")
    scope: dict[str, Any] = {"divide": _divide}
    exec(compile("\n".join(lines), f"<extents of {trace.description.name}>", "exec"), scope)
    evaluate: Callable[[Sequence[int], Mapping[str, int]], _Evaluated] = scope["evaluate"]
    return evaluate


def _print_tuple(items: Sequence[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"


def _in_order(pattern: Pattern) -> list[str]:
    """Return the index variables in an order in which each extent depends only on earlier ones."""
    waiting = dict(pattern.trace.definitions)
    known: list[str] = []
    while waiting:
        missing = {extent_symbol(f"{name}.extent") for name in waiting}
        ready = [name for name in waiting if not (waiting[name][0].extent.free_symbols & missing)]
        if not ready:
            description = pattern.trace.description
            raise DescriptionError(
                f"{description.place}: the extents of {' and '.join(waiting)} depend on each other; declare one "
                "with extents="
            )
        for name in ready:
            known.append(name)
            del waiting[name]
    return known


def _print(expression: sympy.Expr, names: Mapping[ExtentSymbol, str]) -> str:
    if expression.is_Integer:
        return str(int(expression))
    if expression in names:
        return names[expression]
    if isinstance(expression, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expression.args[0]))
        return f"(({_print(numerator, names)}) // ({_print(denominator, names)}))"
    if isinstance(expression, sympy.Mod):
        return f"(({_print(expression.args[0], names)}) % ({_print(expression.args[1], names)}))"
    numerator, denominator = sympy.fraction(sympy.together(expression))
    if denominator != 1:
        return f"divide({_print(numerator, names)}, {_print(denominator, names)}, {str(expression)!r})"
    if expression.is_Add:
        return "(" + " + ".join(_print(term, names) for term in expression.args) + ")"
    if expression.is_Mul:
        return "(" + " * ".join(_print(factor, names) for factor in expression.args) + ")"
    if expression.is_Pow and expression.exp.is_Integer:
        return f"({_print(expression.base, names)} ** {int(expression.exp)})"
    raise DescriptionError(f"the extent {expression} is not an expression of extents that can be evaluated")


class _NoIntegerError(Exception):
    """Division of extents with a remainder."""


def _divide(numerator: int, denominator: int, text: str) -> int:
    if denominator == 0 or numerator % denominator:
        raise _NoIntegerError(f"{text} = {numerator} / {denominator} is not an integer")
    return numerator // denominator
