"""Where a split leads: the axis of each operator that carries the split of its inputs, and the dimension where it comes out.

The hand-made plans start from a few tensors (the batch, some weights); everything else follows through the operators' own access
rows, without a rule for any operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tofu.analysis import OperatorAccess, Row
from tofu.analysis.access import Combine
from tofu.graph import TensorKind
from tofu.search.problem import Problem


@dataclass
class Followed:
    """What a split has reached: operator -> the axis that it takes, tensor -> the dimension that is split.

    What is not listed is not reached: nothing around it is split.
    """

    operators: dict[int, int] = field(default_factory=dict)
    tensors: dict[int, int] = field(default_factory=dict)


def follow(problem: Problem, seeds: Mapping[int, int], gathered: Collection[int] = ()) -> Followed:
    """Follow the splits of `seeds` (tensor -> dimension) through the operators in their order.

    An operator takes the axis by which most bytes of its split inputs are split; parameters that it reads along that axis are split
    with it. Where no axis moves with that dimension, or it is shorter than the number of workers, the operator and its results are
    not reached. Neither are the results of operators in `gathered`.
    """
    followed = Followed(tensors=dict(seeds))
    for position, operator in enumerate(problem.graph.operators):
        root = int(problem.native.choice_root(position))
        axis = followed.operators.get(root) if root != position else carrying_axis(problem, position, followed.tensors)
        if axis is None:
            continue
        followed.operators[position] = axis
        reached = {} if position in gathered else split_outputs(problem, position, axis)
        for tensor, read in zip(operator.inputs, problem.accesses[position].inputs, strict=True):
            dimension = moving_dimension(read.rows, axis)
            if problem.graph.tensors[tensor].kind is TensorKind.PARAMETER and dimension is not None:
                reached[tensor] = dimension
        for tensor, dimension in reached.items():
            if problem.graph.tensors[tensor].shape[dimension] >= prod(problem.factors):
                followed.tensors.setdefault(tensor, dimension)
    return followed


def carrying_axis(problem: Problem, operator: int, tensors: Mapping[int, int]) -> int | None:
    """The axis of an operator that moves with the split dimensions of its inputs; the most bytes decide between several.

    None along which the operator's parts are fetched: the split does not lead on without moving data.
    """
    graph, access = problem.graph, problem.accesses[operator]
    votes: dict[int, int] = {}
    for tensor, read in zip(graph.operators[operator].inputs, access.inputs, strict=True):
        if tensor in tensors:
            axis = outermost_axis(read.rows[tensors[tensor]])
            if axis is not None and _carries(access, axis, prod(problem.factors)):
                votes[axis] = votes.get(axis, 0) + graph.tensors[tensor].size_bytes
    return max(votes, key=lambda axis: votes[axis]) if votes else None


def _carries(access: OperatorAccess, axis: int, parts: int) -> bool:
    return access.extents[axis] >= parts and access.axes[axis] not in access.fetched_axes


def split_outputs(problem: Problem, operator: int, axis: int) -> dict[int, int]:
    """Output -> the dimension along which its parts are put together when `axis` is split; those that are not are left out."""
    outputs = zip(problem.graph.operators[operator].outputs, problem.accesses[operator].outputs, strict=True)
    dimensions = {t: moving_dimension(w.rows, axis) for t, w in outputs if w.combine[axis] is Combine.CONCAT}
    return {t: dimension for t, dimension in dimensions.items() if dimension is not None}


def moving_dimension(rows: Sequence[Row], axis: int) -> int | None:
    """The dimension that moves most with an axis, or None."""
    reach = {d: abs(factor) for d, row in enumerate(rows) for a, factor in row.terms if a == axis}
    return max(reach, key=lambda d: reach[d]) if reach else None


def outermost_axis(row: Row) -> int | None:
    """The axis that a dimension moves most with, or None."""
    return max(row.terms, key=lambda term: abs(term[1]))[0] if row.terms else None
