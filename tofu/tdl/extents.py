"""Extents of index variables: the lengths of their ranges.

A description declares an extent, or Tofu infers it from a read of a tensor. For example, the extent of i in `t[i, j]`
is `t.shape[0]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from tofu.errors import DescriptionError
from tofu.tdl.expression import ExtentSymbol, Reduction, Value, extent_symbol, variable_symbol
from tofu.tdl.forms import Output
from tofu.tdl.place import Place
from tofu.tdl.tensor import is_single_variable
from tofu.tdl.walk import accesses, children


@dataclass(frozen=True)
class Definition:
    """An expression for the length of an index variable's range, declared or inferred."""

    extent: sympy.Expr
    is_declared: bool
    place: Place

    @property
    def is_fixed(self) -> bool:
        """True if the extent (length) is a number, for example from an operator's attribute."""
        return not self.extent.free_symbols


class _Definitions:
    def __init__(self) -> None:
        self.by_variable: dict[str, list[Definition]] = {}
        self.places: dict[str, Place] = {}

    def add_variable(self, variable: str, place: Place) -> None:
        self.by_variable.setdefault(variable, [])
        self.places.setdefault(variable, place)

    def add(self, variable: str, extent: sympy.Expr, place: Place, is_declared: bool = False) -> None:
        if all(definition.extent != extent for definition in self.by_variable[variable]):
            self.by_variable[variable].append(Definition(extent, is_declared, place))

    def add_reads(self, variable: str, value: Value | None, place: Place) -> None:
        symbol = variable_symbol(variable)
        for access in accesses(value) if value is not None else ():
            for extent, index in zip(access.tensor.extents, access.indices, strict=True):
                if is_single_variable(index, symbol):
                    self.add(variable, extent, place)

    def add_reductions(self, value: Value, scope: tuple[str, ...]) -> None:
        if isinstance(value, Reduction):
            for variable in value.variables:
                if variable in scope:
                    raise DescriptionError(
                        f"{value.place}: the index variable {variable} is in use already; give the reduction another name"
                    )
                self.add_variable(variable, value.place)
                if variable in value.extents:
                    self.add(variable, value.extents[variable].expression, value.place, is_declared=True)
                else:
                    self.add_reads(variable, value.body, value.place)
            scope += value.variables
        for child in children(value):
            self.add_reductions(child, scope)

    def add_scatter(self, output: Output, extents: Sequence[ExtentSymbol]) -> None:
        for variable in output.variables:
            if variable not in output.extents:
                self.add_reads(variable, output.value, output.place)
                for coordinate, extent in zip(output.coordinates, extents, strict=True):
                    if not self.by_variable[variable] and is_single_variable(coordinate, variable_symbol(variable)):
                        self.add(variable, extent, output.place)

    def add_merged(self, output: Output, group: tuple[str, ...], extent: ExtentSymbol) -> None:
        for variable in group:
            if variable not in output.extents:
                self.add_reads(variable, output.value, output.place)
        unknown = [variable for variable in group if not self.by_variable[variable]]
        if len(unknown) > 1:
            raise DescriptionError(
                f"{output.place}: the extents of {' and '.join(unknown)} in ({' '.join(group)}) are unknown; declare "
                "all but one with extents="
            )
        defined = unknown[0] if unknown else group[0]
        other_extents = [extent_symbol(f"{variable}.extent") for variable in group if variable != defined]
        self.add(defined, extent / sympy.Mul(*other_extents), output.place)


def define_extents(
    outputs: Sequence[Output], output_extents: Sequence[Sequence[ExtentSymbol]]
) -> dict[str, tuple[Definition, ...]]:
    """Return {index variable: all expressions for its length}. Raise DescriptionError if a variable has none."""
    definitions = _Definitions()
    for output, extents in zip(outputs, output_extents, strict=True):
        for variable in output.variables:
            definitions.add_variable(variable, output.place)
        for variable, declared in output.extents.items():
            definitions.add(variable, declared.expression, output.place, is_declared=True)
        if output.value is not None:
            definitions.add_reductions(output.value, output.variables)
        if output.groups is None:
            definitions.add_scatter(output, extents)
            continue
        for group, extent in zip(output.groups, extents, strict=True):
            if len(group) == 1:
                definitions.add(group[0], extent, output.place)
            else:
                definitions.add_merged(output, group, extent)
    for variable, found in definitions.by_variable.items():
        if not found:
            raise DescriptionError(
                f"{definitions.places[variable]}: the extent of {variable} is unknown: {variable} alone indexes no "
                f'tensor\'s dimension; declare it with extents={{"{variable}": ...}}'
            )
    return {variable: tuple(found) for variable, found in definitions.by_variable.items()}
