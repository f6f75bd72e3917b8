"""Operators that only move elements (concatenation, slices, padding, stacks), and the axes along which fetches replace their kernels.

A kernel that runs on a part of such an operator would count from the part's first element. That is wrong along the
dimension that a concatenation joins, for example. But a worker's part of an output only consists of elements of the
inputs, each input's at one distance, so a single fetch assembles it. A tensor may lack a dimension that the others
have, as the inputs of a stack do: it is one element of that dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tofu.analysis.evaluator import Evaluator, IndexNumbers, SignatureNumbers
from tofu.analysis.symbolic import Pattern

Shapes = tuple[tuple[int, ...], ...]
Indices = Sequence[IndexNumbers] | None
"""The indices of a dimension; None if it is read whole."""


class AbsentElement(NamedTuple):
    """The dimension that a tensor lacks, the index variable along it, and the tensor's position in it."""

    dimension: int
    axis: str
    cell: int


def find_absent(
    pattern: Pattern, evaluator: Evaluator, numbers: SignatureNumbers, shapes: Shapes, *, takes_part: bool
) -> tuple[AbsentElement | None, ...] | None:
    """Return what each tensor lacks if all elements of each read input move by one distance to each output; None otherwise.

    `shapes` and the result list inputs, then outputs. If the operator `takes_part` of its input, rows hold even if nothing is split.
    """
    if pattern.moved is None:
        return None
    description, attributes = pattern.trace.description, pattern.trace.attributes
    indices = _list_indices(evaluator, numbers, shapes)
    read = [n for n, access in enumerate(pattern.inputs) if access.is_read]
    fills = {description.find_fill(pattern.trace.tensors[n].name, attributes) for n in read}
    is_zero_outside = len(read) > 1 or any(element.chosen is not None for cells in pattern.moved for element in cells)
    if is_zero_outside and fills != {0.0}:
        return None
    found: list[set[AbsentElement | None]] = [set() for _ in shapes]
    for number, cells in enumerate(pattern.moved, len(pattern.inputs)):
        for element in cells:
            slot = element.cell.tensor.position
            lacks = _match(indices[slot], indices[number], element.chosen, {} if takes_part else numbers.extents)
            if lacks is None:
                return None
            found[slot].add(lacks[0])
            found[number].add(lacks[1])
    if any(len(dimensions) > 1 for dimensions in found) or any(
        dimensions - {None} and not shape for dimensions, shape in zip(found, shapes, strict=True)
    ):
        return None
    return tuple(dimensions.pop() if dimensions else None for dimensions in found)


def _match(
    source: list[Indices], target: list[Indices], chosen: tuple[str, int] | None, extents: Mapping[str, int]
) -> tuple[AbsentElement | None, AbsentElement | None] | None:
    """Return what the source and the target lack if they have the same elements in the same order; None otherwise."""
    if chosen is None:
        return (None, None) if _are_moved(source, target, extents) else None
    axis, cell = chosen
    larger, smaller = (target, source) if len(target) > len(source) else (source, target)
    along = [d for d, indices in enumerate(larger) if _is_bare(indices, axis)]
    if len(larger) != len(smaller) + 1 or len(along) != 1:
        return None
    (dimension,) = along
    rest = [indices for d, indices in enumerate(larger) if d != dimension]
    if not (_are_moved(source, rest, extents) if larger is target else _are_moved(rest, target, extents)):
        return None
    absent = AbsentElement(dimension, axis, cell)
    return (absent, None) if larger is target else (None, absent)


def _list_indices(evaluator: Evaluator, numbers: SignatureNumbers, shapes: Shapes) -> list[list[Indices]]:
    dimensions = zip(evaluator.dimensions, numbers.dimensions, strict=True)
    rest = iter([None if dimension.is_whole else indices for dimension, indices in dimensions])
    return [[next(rest) for _ in shape] for shape in shapes]


def _is_bare(indices: Indices, axis: str) -> bool:
    """Return True if a variable alone indexes a dimension."""
    return indices is not None and len(indices) == 1 and indices[0] == IndexNumbers(((axis, 1),), 0, 0)


def _are_moved(source: Sequence[Indices], target: Sequence[Indices], extents: Mapping[str, int]) -> bool:
    return len(source) == len(target) and all(_is_moved(a, b, extents) for a, b in zip(source, target, strict=True))


def _is_moved(source: Indices, target: Indices, extents: Mapping[str, int]) -> bool:
    """Return True if two dimensions have the same elements in the same order, and their rows keep the distance between them."""
    if source is None or target is None or len(source) != 1 or len(target) != 1:
        return False
    (a,), (b,) = source, target
    if a.terms != b.terms or [factor for _, factor in a.terms] != [1] or a.lower != a.upper or b.lower != b.upper:
        return False
    ((variable, _),) = a.terms
    is_axis = extents.get(variable, 2) > 1  # otherwise the rows are whole dimensions
    return is_axis or a.lower == b.lower
