"""The ways in which a description can state an output: a lambda, `output`, `scatter`, and `unwritten`.

A *pattern* such as "b (g co) *s" names the output's dimensions. Here, the second dimension merges g and co, and `*s`
stands for any number of further dimensions. Each dimension is a *group* of index variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tofu.errors import DescriptionError
from tofu.tdl.expression import Index, Operand, Value, WholeDimension, as_index, as_value, variable_symbol
from tofu.tdl.functions import merge
from tofu.tdl.lambdas import call_with_variables, list_variables, read_extents, read_parameters
from tofu.tdl.place import Place, find_place

Coordinate: TypeAlias = Index | WholeDimension


@dataclass(frozen=True, eq=False)
class Output:
    """The formula of an output: the element at `coordinates` is `value`, for all values of `variables`.

    Attributes
    ----------
    groups
        The index variables of each dimension, or None for a scatter.
    value
        The formula. None for scratch memory, and for an output that is never written.
    """

    variables: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] | None
    coordinates: tuple[Coordinate, ...]
    value: Value | None
    extents: dict[str, Index]
    place: Place
    is_scratch: bool = False


class Form:
    """One output of a description. A user writes a lambda, `output(...)`, `scatter(...)` or `unwritten(...)`."""

    def trace(self, rank: int) -> Output:
        """Return the formula of an output with `rank` dimensions."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Dimensions(Form):
    groups: tuple[tuple[str, ...], ...]
    body: Callable[..., Operand] | None
    extents: Mapping[str, Index | int] | None
    place: Place
    is_scratch: bool = False

    def trace(self, rank: int) -> Output:
        groups = self._expand_star(rank)
        names = tuple(name for group in groups for name in group)
        value = None
        if self.body is not None:
            parameters = read_parameters(self.body)
            parameter_names = parameters.expand(len(names)) if parameters.names else names
            if sorted(parameter_names) != sorted(names):
                raise DescriptionError(
                    f"{self.place}: the output's dimensions are {', '.join(names)}, the lambda's parameters "
                    f"{', '.join(parameter_names)}"
                )
            value = as_value(call_with_variables(self.body, parameter_names))
        coordinates = tuple(
            Index(variable_symbol(group[0])) if len(group) == 1 else merge(*(Index(variable_symbol(n)) for n in group))
            for group in groups
        )
        declared_extents = read_extents(self.extents, names)
        return Output(names, groups, coordinates, value, declared_extents, self.place, self.is_scratch)

    def _expand_star(self, rank: int) -> tuple[tuple[str, ...], ...]:
        star_positions = [n for n, group in enumerate(self.groups) if group[0].startswith("*")]
        star_rank = rank - len(self.groups) + len(star_positions)
        if len(star_positions) > 1 or star_rank < 0 or (star_rank and not star_positions):
            pattern = " ".join(g[0] if len(g) == 1 else f"({' '.join(g)})" for g in self.groups)
            raise DescriptionError(f"{self.place}: the output is described as `{pattern}` but has {rank} dimensions")
        expanded: list[tuple[str, ...]] = []
        for group in self.groups:
            if group[0].startswith("*"):
                expanded += [(f"{group[0][1:]}{n}",) for n in range(star_rank)]
            else:
                expanded.append(group)
        return tuple(expanded)


@dataclass(frozen=True)
class _Scatter(Form):
    body: Callable[..., tuple[tuple[object, ...], Operand]]
    extents: Mapping[str, Index | int] | None
    names: tuple[str, ...]
    place: Place

    def trace(self, rank: int) -> Output:
        names = self.names
        result = call_with_variables(self.body, names)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], tuple)):
            raise DescriptionError(f"{self.place}: the lambda of scatter returns ((coordinates...), value)")
        coordinates = tuple(c if isinstance(c, WholeDimension) else as_index(c) for c in result[0])
        if len(coordinates) != rank:
            raise DescriptionError(
                f"{self.place}: scatter gives {len(coordinates)} coordinates, the output has {rank} dimensions"
            )
        declared_extents = read_extents(self.extents, names)
        return Output(names, None, coordinates, as_value(result[1]), declared_extents, self.place)


def output(pattern: str, body: Callable[..., Operand], extents: Mapping[str, Index | int] | None = None) -> Form:
    """Describe an output with merged dimensions, such as `output("b (g co) *s", lambda b, g, co, *s: value)`.

    Variables in parentheses share one dimension: the pair (g, co) has the index `g * co.extent + co`. `*s` stands for
    all further dimensions.
    """
    return _Dimensions(_parse_pattern(pattern), body, extents, find_place())


def unwritten(pattern: str, extents: Mapping[str, Index | int] | None = None, is_scratch: bool = False) -> Form:
    """Describe an output that the kernel does not write, or fills with zeros.

    For example, `unwritten("b *s")` is the gradient of a label. With `is_scratch=True`, the output is scratch memory,
    which no other operator reads.
    """
    return _Dimensions(_parse_pattern(pattern), None, extents, find_place(), is_scratch)


def scatter(
    body: Callable[..., tuple[tuple[object, ...], Operand]],
    extents: Mapping[str, Index | int] | None = None,
    rank: int | None = None,
    names: str | None = None,
) -> Form:
    """Describe an output to which values are added, such as `scatter(lambda b, y, ky: ((b, y * 2 + ky - 1), value))`.

    The lambda returns the coordinates of an output element, and a value to add to this element. Elements without values
    are zero. Values outside the output are dropped. If the lambda has a parameter `*s`, pass the number of all
    variables (`rank=6`) or their names (`names="b c y0 y1 d0 d1"`).
    """
    variables = list_variables(read_parameters(body), "scatter", "rank", rank, names)
    return _Scatter(body, extents, variables, find_place())


def as_form(result: object, place: Place) -> Form:
    """Convert a result of a description, such as a lambda, to a `Form`."""
    if isinstance(result, Form):
        return result
    if not callable(result):
        raise DescriptionError(
            f"{place}: a description returns a lambda, output(...), scatter(...) or unwritten(...), not {result!r}"
        )
    parameters = read_parameters(result)
    star_group = () if parameters.star is None else ((f"*{parameters.star}",),)
    return _Dimensions(tuple((name,) for name in parameters.names) + star_group, result, None, parameters.place)


def _parse_pattern(pattern: str) -> tuple[tuple[str, ...], ...]:
    name = r"\*?[A-Za-z_]\w*"
    if not re.fullmatch(rf"\s*((\(\s*{name}(\s+{name})*\s*\)|{name})\s*)*", pattern):
        raise DescriptionError(f"{find_place()}: `{pattern}` is no list of dimensions such as `b (g co) *s`")
    groups = tuple(
        tuple(inside.split()) or (single,) for inside, single in re.findall(rf"\(([^)]*)\)|({name})", pattern)
    )
    names = [n for group in groups for n in group]
    if len(set(names)) < len(names):
        raise DescriptionError(f"{find_place()}: `{pattern}` names a dimension twice")
    return groups
