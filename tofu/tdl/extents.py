"""Extents of index variables, the lengths of their ranges.

A description declares an extent, or it is inferred from a dimension that the variable alone indexes: `t[i, j + 1]`
implies the extent of i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from tofu.errors import DescriptionError
from tofu.tdl.expression import ExtentSymbol, Reduction, Value, extent_symbol, variable_symbol
from tofu.tdl.forms import Output
from tofu.tdl.place import Place
from tofu.tdl.tensor import is_bare
from tofu.tdl.walk import accesses, children


@dataclass(frozen=True)
class Definition:
    """Definition of an index variable's extent. `is_declared` is False if the extent is inferred."""

    extent: sympy.Expr
    is_declared: bool
    place: Place

    @property
    def is_fixed(self) -> bool:
        """True if the extent is a number from an attribute."""
        return not self.extent.free_symbols


class _Definitions:
    def __init__(self) -> None:
        self.known: dict[str, list[Definition]] = {}
        self.places: dict[str, Place] = {}

    def meet(self, name: str, place: Place) -> None:
        self.known.setdefault(name, [])
        self.places.setdefault(name, place)

    def add(self, name: str, extent: sympy.Expr, place: Place, is_declared: bool = False) -> None:
        definition = Definition(extent, is_declared, place)
        if all(definition.extent != other.extent for other in self.known[name]):
            self.known[name].append(definition)


def define_extents(
    outputs: Sequence[Output], output_extents: Sequence[Sequence[ExtentSymbol]]
) -> dict[str, tuple[Definition, ...]]:
    """Return all definitions of each index variable's extent. Raises DescriptionError if a variable has no definition."""
    definitions = _Definitions()
    for output, extents in zip(outputs, output_extents, strict=True):
        for name in output.variables:
            definitions.meet(name, output.place)
        for name, declared in output.extents.items():
            definitions.add(name, declared.expression, output.place, is_declared=True)
        if output.value is not None:
            _define_reductions(definitions, output.value, output.variables)
        _define_coordinates(definitions, output, extents)
    for name, known in definitions.known.items():
        if not known:
            raise DescriptionError(
                f"{definitions.places[name]}: the extent of {name} is unknown: {name} alone indexes no "
                "tensor's dimension; "
                f'declare it with extents={{"{name}": ...}}'
            )
    return {name: tuple(known) for name, known in definitions.known.items()}


def _define_coordinates(definitions: _Definitions, output: Output, extents: Sequence[ExtentSymbol]) -> None:
    if output.groups is None:
        for name in output.variables:
            if name not in output.extents:
                _define_bare(definitions, name, output.value, output.place)
                for coordinate, extent in zip(output.coordinates, extents, strict=True):
                    if not definitions.known[name] and is_bare(coordinate, variable_symbol(name)):
                        definitions.add(name, extent, output.place)
        return
    for group, extent in zip(output.groups, extents, strict=True):
        if len(group) == 1:
            definitions.add(group[0], extent, output.place)
        else:
            _define_merged(definitions, output, group, extent)


def _define_merged(definitions: _Definitions, output: Output, group: tuple[str, ...], extent: ExtentSymbol) -> None:
    for name in group:
        if name not in output.extents:
            _define_bare(definitions, name, output.value, output.place)
    unknown = [name for name in group if not definitions.known[name]]
    if len(unknown) > 1:
        raise DescriptionError(
            f"{output.place}: the extents of {' and '.join(unknown)} in ({' '.join(group)}) are unknown; declare "
            "all but one with extents="
        )
    last = unknown[0] if unknown else group[0]
    others = sympy.Mul(*(extent_symbol(f"{name}.extent") for name in group if name != last))
    definitions.add(last, extent / others, output.place)


def _define_reductions(definitions: _Definitions, value: Value, scope: tuple[str, ...]) -> None:
    if isinstance(value, Reduction):
        for name in value.variables:
            if name in scope:
                raise DescriptionError(
                    f"{value.place}: the index variable {name} is in use already; give the reduction another name"
                )
            definitions.meet(name, value.place)
            if name in value.extents:
                definitions.add(name, value.extents[name].expression, value.place, is_declared=True)
            else:
                _define_bare(definitions, name, value.body, value.place)
        scope += value.variables
    for child in children(value):
        _define_reductions(definitions, child, scope)


def _define_bare(definitions: _Definitions, name: str, value: Value | None, place: Place) -> None:
    symbol = variable_symbol(name)
    for access in accesses(value) if value is not None else ():
        for dimension, index in enumerate(access.indices):
            if is_bare(index, symbol):
                definitions.add(name, access.tensor.extents[dimension], place)
