"""Recognition of operators that only move elements: concatenation, slices, padding and stacks.

The framework's kernel cannot always compute a part of such an operator. For example, a concatenation cannot be split
along the dimension that it joins, because a kernel counts positions from the start of its part. But each input is only
shifted by a fixed distance. So a fetch, which assembles a region from several workers' memory, can replace the kernel.

An input of a stack lacks a dimension that the output has: the input is one slice along that dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tofu.analysis.evaluator import Evaluator, IndexNumbers, SignatureNumbers
from tofu.analysis.symbolic import Pattern

Shapes = tuple[tuple[int, ...], ...]
Indices = Sequence[IndexNumbers] | None
"""The indices of one dimension, or None if the whole dimension is read."""


class AbsentElement(NamedTuple):
    """Dimension that a tensor lacks, the index variable along it, and the tensor's position along it."""

    dimension: int
    axis: str
    position: int


def find_absent(
    pattern: Pattern, evaluator: Evaluator, numbers: SignatureNumbers, shapes: Shapes, *, takes_part: bool
) -> tuple[AbsentElement | None, ...] | None:
    """Return the dimension that each tensor lacks, or None if the operator does more than shift each input by a fixed distance.

    `shapes` and the result list the inputs, then the outputs. `takes_part` is True if the operator reads a part of its input.
    """
    if pattern.moved is None:
        return None
    description, attributes = pattern.trace.description, pattern.trace.attributes
    indices = _list_indices(evaluator, numbers, shapes)
    read = [n for n, access in enumerate(pattern.inputs) if access.is_read]
    fills = {description.find_fill(pattern.trace.tensors[n].name, attributes) for n in read}
    is_zero_outside = len(read) > 1 or any(moved.chosen is not None for elements in pattern.moved for moved in elements)
    if is_zero_outside and fills != {0.0}:
        return None
    found: list[set[AbsentElement | None]] = [set() for _ in shapes]
    for number, elements in enumerate(pattern.moved, len(pattern.inputs)):
        for moved in elements:
            slot = moved.element.tensor.position
            lacks = _match(indices[slot], indices[number], moved.chosen, {} if takes_part else numbers.extents)
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
    """Return which element of a dimension the source lacks, and which the target lacks, or None if they differ in more."""
    if chosen is None:
        return (None, None) if _are_moved(source, target, extents) else None
    axis, position = chosen
    larger, smaller = (target, source) if len(target) > len(source) else (source, target)
    along = [d for d, indices in enumerate(larger) if _is_bare(indices, axis)]
    if len(larger) != len(smaller) + 1 or len(along) != 1:
        return None
    (dimension,) = along
    rest = [indices for d, indices in enumerate(larger) if d != dimension]
    if not (_are_moved(source, rest, extents) if larger is target else _are_moved(rest, target, extents)):
        return None
    absent = AbsentElement(dimension, axis, position)
    return (absent, None) if larger is target else (None, absent)


def _list_indices(evaluator: Evaluator, numbers: SignatureNumbers, shapes: Shapes) -> list[list[Indices]]:
    dimensions = zip(evaluator.dimensions, numbers.dimensions, strict=True)
    rest = iter([None if dimension.is_whole else indices for dimension, indices in dimensions])
    return [[next(rest) for _ in shape] for shape in shapes]


def _is_bare(indices: Indices, axis: str) -> bool:
    return indices is not None and len(indices) == 1 and indices[0] == IndexNumbers(((axis, 1),), 0, 0)


def _are_moved(source: Sequence[Indices], target: Sequence[Indices], extents: Mapping[str, int]) -> bool:
    return len(source) == len(target) and all(_is_moved(a, b, extents) for a, b in zip(source, target, strict=True))


def _is_moved(source: Indices, target: Indices, extents: Mapping[str, int]) -> bool:
    """Return True if a dimension of an output has the elements of a dimension of an input, shifted by a fixed distance."""
    if source is None or target is None or len(source) != 1 or len(target) != 1:
        return False
    (a,), (b,) = source, target
    if a.terms != b.terms or [factor for _, factor in a.terms] != [1] or a.lower != a.upper or b.lower != b.upper:
        return False
    ((variable, _),) = a.terms
    is_axis = extents.get(variable, 2) > 1  # otherwise the rows are whole dimensions
    return is_axis or a.lower == b.lower
