"""Operators that only move cells (concatenation, slices, padding): along which of them fetches can take the place of a kernel.

A kernel that runs on a part of such an operator would count from its part's first cell. Where that is wrong, as along the dimension
that a concatenation joins, a worker's part of an output is still nothing but cells of the inputs, each input's at one distance: one
fetch puts it together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tofu.analysis.evaluator import Evaluator, IndexNumbers, Numbers
from tofu.analysis.symbolic import Pattern

Shapes = tuple[tuple[int, ...], ...]
Indices = Sequence[IndexNumbers] | None
"""How a dimension is indexed; None where it is read whole."""


def is_translation(pattern: Pattern, evaluator: Evaluator, numbers: Numbers, shapes: Shapes) -> bool:
    """Whether all cells of an input that is read move by one distance to each output. `shapes` are those of inputs, then outputs."""
    if not pattern.moves_cells:
        return False
    description, attributes = pattern.trace.description, pattern.trace.attributes
    indices = _list_indices(evaluator, numbers, shapes)
    read = [n for n, access in enumerate(pattern.inputs) if access.is_read]
    fills = {description.find_fill(pattern.trace.tensors[n].name, attributes) for n in read}
    return (len(read) == 1 or fills == {0.0}) and all(
        len(indices[n]) == len(target)
        and all(_is_moved(a, b, numbers.extents) for a, b in zip(indices[n], target, strict=True))
        for n in read
        for target in indices[len(pattern.inputs) :]
    )


def _list_indices(evaluator: Evaluator, numbers: Numbers, shapes: Shapes) -> list[list[Indices]]:
    """Those of each dimension of each tensor."""
    dimensions = zip(evaluator.dimensions, numbers.dimensions, strict=True)
    rest = iter([None if dimension.is_whole else indices for dimension, indices in dimensions])
    return [[next(rest) for _ in shape] for shape in shapes]


def _is_moved(source: Indices, target: Indices, extents: Mapping[str, int]) -> bool:
    """Whether two dimensions have the same cells in the same order, and their rows keep the distance between them."""
    if source is None or target is None or len(source) != 1 or len(target) != 1:
        return False
    (a,), (b,) = source, target
    if a.terms != b.terms or [factor for _, factor in a.terms] != [1] or a.lower != a.upper or b.lower != b.upper:
        return False
    ((variable, _),) = a.terms
    return a.lower == b.lower or extents[variable] > 1  # else it is no axis, and the rows are whole dimensions
