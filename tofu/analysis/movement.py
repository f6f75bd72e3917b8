"""Recognition of operators that only move elements: concatenation, slices, padding and stacks.

Such an operator shifts each input by a fixed distance. Workers can read the shifted elements directly from each other.
The operator's kernel often cannot compute a part of the output, because it counts positions from zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tofu.analysis.access import Move
from tofu.analysis.evaluator import IndexNumbers
from tofu.analysis.symbolic import Pattern

Indices = tuple[IndexNumbers, ...] | None
"""The indices of one dimension, or None if the whole dimension is read."""


class AbsentElement(NamedTuple):
    """A dimension that an input or output lacks. In np.stack([a, b]), a and b lack the new dimension.

    `axis` names the dimension's index in the operator's formula. `position` is 0 for a, and 1 for b.
    """

    dimension: int
    axis: str
    position: int


def find_absent(
    pattern: Pattern, indices_by_tensor: Sequence[list[Indices]], extents: Mapping[str, int]
) -> tuple[AbsentElement | None, ...] | None:
    """Return, for each input and output, the dimension that it lacks, or None.

    Return None if the operator does more than shift its inputs.
    """
    if pattern.moved_elements is None:
        return None
    description, attributes = pattern.trace.description, pattern.trace.attributes
    read_positions = [n for n, access in enumerate(pattern.inputs) if access.is_read]
    fills = {description.find_fill_value(pattern.trace.tensors[n].name, attributes) for n in read_positions}
    is_zero_outside = len(read_positions) > 1 or any(
        moved.chosen is not None for elements in pattern.moved_elements for moved in elements
    )
    if is_zero_outside and fills != {0.0}:
        return None
    absent_by_tensor: list[set[AbsentElement | None]] = [set() for _ in indices_by_tensor]
    for target, elements in enumerate(pattern.moved_elements, len(pattern.inputs)):
        for moved in elements:
            source = moved.element.tensor.position
            absent_elements = _find_absent_element(
                indices_by_tensor[source], indices_by_tensor[target], moved.chosen, extents
            )
            if absent_elements is None:
                return None
            absent_by_tensor[source].add(absent_elements[0])
            absent_by_tensor[target].add(absent_elements[1])
    for elements_of_tensor, indices in zip(absent_by_tensor, indices_by_tensor, strict=True):
        if len(elements_of_tensor) > 1 or (elements_of_tensor - {None} and not indices):
            return None
    return tuple(next(iter(elements_of_tensor), None) for elements_of_tensor in absent_by_tensor)


def find_moves(pattern: Pattern, indices_by_tensor: Sequence[list[Indices]]) -> tuple[tuple[Move, ...], ...]:
    """Return the inputs that the operator copies or adds to each output.

    Return () if the operator does anything else.
    """
    description, attributes = pattern.trace.description, pattern.trace.attributes
    moves = []
    for target, elements in enumerate(pattern.moved_elements or (), len(pattern.inputs)):
        moved_inputs = []
        for element, chosen in elements:
            source, name = element.tensor.position, element.tensor.name
            pairs = list(zip(indices_by_tensor[source], indices_by_tensor[target], strict=False))
            is_shifted = chosen is None and _are_shifted(indices_by_tensor[source], indices_by_tensor[target], {})
            if not is_shifted or description.find_fill_value(name, attributes):
                return ()
            distances = tuple(b[0].lower - a[0].lower for a, b in pairs if a and b)
            moved_inputs.append(Move(source, distances))
        moves.append(tuple(moved_inputs))
    return tuple(moves)


def _find_absent_element(
    source: list[Indices], target: list[Indices], chosen: tuple[str, int] | None, extents: Mapping[str, int]
) -> tuple[AbsentElement | None, AbsentElement | None] | None:
    if chosen is None:
        return (None, None) if _are_shifted(source, target, extents) else None
    axis, position = chosen
    larger, smaller = (target, source) if len(target) > len(source) else (source, target)
    chosen_dimensions = [d for d, indices in enumerate(larger) if indices == (IndexNumbers(((axis, 1),), 0, 0),)]
    if len(larger) != len(smaller) + 1 or len(chosen_dimensions) != 1:
        return None
    (dimension,) = chosen_dimensions
    other_indices = [indices for d, indices in enumerate(larger) if d != dimension]
    absent = AbsentElement(dimension, axis, position)
    if larger is target:
        return (absent, None) if _are_shifted(source, other_indices, extents) else None
    return (None, absent) if _are_shifted(other_indices, target, extents) else None


def _are_shifted(source: Sequence[Indices], target: Sequence[Indices], extents: Mapping[str, int]) -> bool:
    return len(source) == len(target) and all(_is_shifted(a, b, extents) for a, b in zip(source, target, strict=True))


def _is_shifted(source: Indices, target: Indices, extents: Mapping[str, int]) -> bool:
    if source is None or target is None or len(source) != 1 or len(target) != 1:
        return False
    (a,), (b,) = source, target
    if a.terms != b.terms or [factor for _, factor in a.terms] != [1] or a.lower != a.upper or b.lower != b.upper:
        return False
    ((variable, _),) = a.terms
    is_axis = extents.get(variable, 2) > 1  # otherwise the rows are whole dimensions
    return is_axis or a.lower == b.lower
