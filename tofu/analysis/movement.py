"""Operators that only move cells (concatenation, slices, padding, stacks): along which of them fetches can take the place of a kernel.

A kernel that runs on a part of such an operator would count from its part's first cell. Where that is wrong, as along the dimension
that a concatenation joins, a worker's part of an output is still nothing but cells of the inputs, each input's at one distance: one
fetch puts it together. A tensor may lack a dimension of the others, as those that are stacked do: it is one cell of that dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tofu.analysis.evaluator import Evaluator, IndexNumbers, Numbers
from tofu.analysis.symbolic import Pattern

Shapes = tuple[tuple[int, ...], ...]
Indices = Sequence[IndexNumbers] | None
"""How a dimension is indexed; None where it is read whole."""


class AbsentCell(NamedTuple):
    """The dimension that a tensor lacks, the index variable that runs along it, and the one cell of it that the tensor is."""

    dimension: int
    axis: str
    cell: int


def find_absent(
    pattern: Pattern, evaluator: Evaluator, numbers: Numbers, shapes: Shapes, *, takes_part: bool
) -> tuple[AbsentCell | None, ...] | None:
    """What each tensor lacks, where all cells of an input that is read move by one distance to each output; else None.

    `shapes`, like what is found, are those of inputs, then outputs. `takes_part`: rows hold even where nothing is split.
    """
    if pattern.moved is None:
        return None
    description, attributes = pattern.trace.description, pattern.trace.attributes
    indices = _list_indices(evaluator, numbers, shapes)
    read = [n for n, access in enumerate(pattern.inputs) if access.is_read]
    fills = {description.find_fill(pattern.trace.tensors[n].name, attributes) for n in read}
    is_zero_outside = len(read) > 1 or any(one.chosen is not None for cells in pattern.moved for one in cells)
    if is_zero_outside and fills != {0.0}:
        return None
    found: list[set[AbsentCell | None]] = [set() for _ in shapes]
    for number, cells in enumerate(pattern.moved, len(pattern.inputs)):
        for one in cells:
            slot = one.cell.tensor.position
            lacks = _match(indices[slot], indices[number], one.chosen, {} if takes_part else numbers.extents)
            if lacks is None:
                return None
            found[slot].add(lacks[0])
            found[number].add(lacks[1])
    if any(len(one) > 1 for one in found) or any(
        one - {None} and not shape for one, shape in zip(found, shapes, strict=True)
    ):
        return None
    return tuple(one.pop() if one else None for one in found)


def _match(
    source: list[Indices], target: list[Indices], chosen: tuple[str, int] | None, extents: Mapping[str, int]
) -> tuple[AbsentCell | None, AbsentCell | None] | None:
    """What the source and the target lack where they have the same cells in the same order; None where they have not."""
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
    absent = AbsentCell(dimension, axis, cell)
    return (absent, None) if larger is target else (None, absent)


def _list_indices(evaluator: Evaluator, numbers: Numbers, shapes: Shapes) -> list[list[Indices]]:
    """Those of each dimension of each tensor."""
    dimensions = zip(evaluator.dimensions, numbers.dimensions, strict=True)
    rest = iter([None if dimension.is_whole else indices for dimension, indices in dimensions])
    return [[next(rest) for _ in shape] for shape in shapes]


def _is_bare(indices: Indices, axis: str) -> bool:
    """Whether a dimension is indexed by a variable and nothing else."""
    return indices is not None and len(indices) == 1 and indices[0] == IndexNumbers(((axis, 1),), 0, 0)


def _are_moved(source: Sequence[Indices], target: Sequence[Indices], extents: Mapping[str, int]) -> bool:
    return len(source) == len(target) and all(_is_moved(a, b, extents) for a, b in zip(source, target, strict=True))


def _is_moved(source: Indices, target: Indices, extents: Mapping[str, int]) -> bool:
    """Whether two dimensions have the same cells in the same order, and their rows keep the distance between them."""
    if source is None or target is None or len(source) != 1 or len(target) != 1:
        return False
    (a,), (b,) = source, target
    if a.terms != b.terms or [factor for _, factor in a.terms] != [1] or a.lower != a.upper or b.lower != b.upper:
        return False
    ((variable, _),) = a.terms
    return a.lower == b.lower or extents.get(variable, 2) > 1  # else it is no axis, and the rows are whole dimensions
