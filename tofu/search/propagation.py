"""Propagation of splits through a graph, for hand-made plans that split only a few tensors explicitly.

In `a[i, k]`, axis i indexes dimension 0. If `a` is split along this dimension, the operator is split along i, and its
outputs along the dimensions that i indexes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tofu.analysis import OperatorAccess, Row
from tofu.analysis.access import Combine
from tofu.graph import TensorKind
from tofu.search.problem import Problem


@dataclass
class Propagated:
    """The axis of each operator that is split, and the dimension of each tensor that is split.

    Tensors in `short` are not split, because this dimension has fewer elements than there are workers.
    """

    operators: dict[int, int] = field(default_factory=dict)
    tensors: dict[int, int] = field(default_factory=dict)
    short: dict[int, int] = field(default_factory=dict)


def propagate(
    problem: Problem, seeds: Mapping[int, int], gathered: Collection[int] = (), guessed: Collection[int] = ()
) -> Propagated:
    """Follow the splits of some tensors through all operators in order. `seeds[t]` is the split dimension of tensor t.

    - An operator and its parameters are split like its inputs. If inputs differ, the largest decides.
    - An axis with fewer elements than workers is not split.
    - The outputs of operators in `gathered` are not split.
    - A loop's value stays split only if the next iteration's value is split alike.
    - If a loop reads slices of the split dimension, the next dimension is split.
    - Seeds in `guessed` are changed to the dimension that their readers need.
    """
    seeds, unsplit, pending = dict(seeds), set[int](), set(guessed)
    given = seeds.keys() - pending
    while True:
        propagated = _follow_once(problem, seeds, gathered, pending)
        changed = {t: d for t, d in _find_scanned(problem, propagated) if t not in given and seeds.get(t) != d}
        changed = changed or dict(_find_corrected(problem, propagated, pending))
        pending -= changed.keys()
        given |= changed.keys()
        if added := changed | _enter_loops(problem, propagated, seeds.keys() | unsplit):
            seeds |= added
        elif left := _leave_loops(problem, propagated, seeds):  # when nothing more is reached
            unsplit |= left
            seeds = {t: d for t, d in seeds.items() if t not in left}
        else:
            return propagated


def _follow_once(
    problem: Problem, seeds: Mapping[int, int], gathered: Collection[int], guessed: Collection[int]
) -> Propagated:
    propagated = Propagated(tensors=dict(seeds))
    marked = ChainMap(propagated.tensors, propagated.short)
    for position, operator in enumerate(problem.graph.operators):
        root = int(problem.native.choice_root(position))
        is_own = root == position
        axis = choose_axis(problem, position, propagated.tensors, guessed) if is_own else propagated.operators.get(root)
        if axis is None:
            short = choose_axis(problem, position, marked, parts=1) if is_own else None
            propagated.short.update({} if short is None else split_outputs(problem, position, short))
            continue
        propagated.operators[position] = axis
        reached = {} if position in gathered else split_outputs(problem, position, axis)
        for tensor, read in zip(operator.inputs, problem.accesses[position].inputs, strict=True):
            dimension = find_main_dimension(read.rows, axis)
            if problem.graph.tensors[tensor].kind is TensorKind.PARAMETER and dimension is not None:
                reached[tensor] = dimension
        for tensor, dimension in reached.items():
            if problem.graph.tensors[tensor].shape[dimension] >= prod(problem.factors):
                propagated.tensors.setdefault(tensor, dimension)
    return propagated


def _is_scanned(problem: Problem, operator: int, slot: int, dimension: int) -> bool:
    reader, tensors = problem.graph.operators[operator], problem.graph.tensors
    read = problem.accesses[operator].inputs[slot]
    is_entered = any(tensors[t].times > tensors[reader.inputs[slot]].times for t in reader.outputs)
    is_shorter = any(len(tensors[t].shape) < len(read.rows) for t in reader.outputs)
    return is_entered and is_shorter and not read.rows[dimension].terms


def _find_scanned(problem: Problem, propagated: Propagated) -> Iterator[tuple[int, int]]:
    split = ChainMap(propagated.tensors, propagated.short)
    for position, operator in enumerate(problem.graph.operators):
        for slot, tensor in enumerate(operator.inputs):
            shape = problem.graph.tensors[tensor].shape
            dimension = split.get(tensor)
            if dimension is None or dimension + 1 >= len(shape) or not _is_scanned(problem, position, slot, dimension):
                continue
            if shape[dimension + 1] >= prod(problem.factors):
                yield tensor, dimension + 1


def _find_corrected(problem: Problem, propagated: Propagated, guessed: Collection[int]) -> Iterator[tuple[int, int]]:
    for position, axis in propagated.operators.items():
        operator, access = problem.graph.operators[position], problem.accesses[position]
        for tensor, read in zip(operator.inputs, access.inputs, strict=True):
            dimension = find_main_dimension(read.rows, axis) if tensor in guessed else None
            if dimension is not None and dimension != propagated.tensors.get(tensor):
                yield tensor, dimension


def _enter_loops(problem: Problem, propagated: Propagated, known: Collection[int]) -> dict[int, int]:
    entered: dict[int, int] = {}
    for carry in problem.graph.carries:
        found = [propagated.tensors[t] for t in carry.values if t in propagated.tensors]
        if found and carry.tensor not in known:
            entered |= dict.fromkeys((carry.tensor, carry.last), found[-1])
    return entered


def _leave_loops(problem: Problem, propagated: Propagated, seeds: Mapping[int, int]) -> set[int]:
    return {
        tensor
        for carry in problem.graph.carries
        if carry.tensor in seeds and seeds[carry.tensor] != propagated.tensors.get(carry.values[-1])
        for tensor in (carry.tensor, carry.last)
    }


def choose_axis(
    problem: Problem,
    operator: int,
    tensors: Mapping[int, int],
    guessed: Collection[int] = (),
    parts: int | None = None,
) -> int | None:
    """Choose the axis that fits the splits of an operator's inputs, or return None.

    If inputs are split differently, the largest decides. Inputs in `guessed` decide only if no other input does. The
    axis has at least `parts` elements, by default one for each worker.
    """
    graph, access = problem.graph, problem.accesses[operator]
    parts = prod(problem.factors) if parts is None else parts
    votes: dict[int, tuple[bool, int]] = {}
    for tensor, read in zip(graph.operators[operator].inputs, access.inputs, strict=True):
        if tensor in tensors:
            axis = find_main_axis(read.rows[tensors[tensor]])
            if axis is not None and can_split_along(access, axis, parts):
                is_known, found = votes.get(axis, (False, 0))
                votes[axis] = is_known or tensor not in guessed, found + graph.tensors[tensor].size_bytes
    return max(votes, key=lambda axis: votes[axis]) if votes else None


def can_split_along(access: OperatorAccess, axis: int, parts: int) -> bool:
    """Return True if an axis has at least `parts` elements, and the kernel can compute each part."""
    is_left_out = access.axes[axis] in access.fetched_axes or access.axes[axis] in access.outer_axes
    return access.extents[axis] >= parts and not is_left_out


def split_outputs(problem: Problem, operator: int, axis: int) -> dict[int, int]:
    """Return {output: split dimension} for an operator that is split along `axis`.

    Outputs that are not split are left out.
    """
    outputs = zip(problem.graph.operators[operator].outputs, problem.accesses[operator].outputs, strict=True)
    dimensions = {t: find_main_dimension(w.rows, axis) for t, w in outputs if w.combine[axis] is Combine.CONCAT}
    return {t: dimension for t, dimension in dimensions.items() if dimension is not None}


def find_main_dimension(rows: Sequence[Row], axis: int) -> int | None:
    """Return the dimension whose index contains `axis` with the largest factor, or None.

    Example: dimension 1 for axis i of a[i, 2 * i].
    """
    reach = {d: abs(factor) for d, row in enumerate(rows) for a, factor in row.terms if a == axis}
    return max(reach, key=lambda d: reach[d]) if reach else None


def find_main_axis(row: Row) -> int | None:
    """Return the axis with the largest factor in an index: j for i + 3 * j. Return None if there is no axis."""
    return max(row.terms, key=lambda term: abs(term[1]))[0] if row.terms else None
