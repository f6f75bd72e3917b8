"""The part of an operator that each worker computes, and the shard of a tensor that each worker stores."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tofu import _core
from tofu.program.lockstep import Box
from tofu.search import Choices
from tofu.search.choices import REPLICATED
from tofu.search.geometry import find_shards


def find_parts(choices: Choices, operator: int) -> _core.Int64Array:
    """Return each worker's part of an operator, as an array [workers, axes, (begin, end)]."""
    problem, axes = choices.problem, choices.operators[operator].tolist()
    return _core.worker_boxes(problem.native, list(problem.factors), "operator", operator, axes)


def list_parts(choices: Choices, operator: int) -> tuple[Box, ...]:
    """Return each worker's part of an operator: a range (begin, end) of each axis."""
    return _list_boxes(find_parts(choices, operator))


def list_shards(choices: Choices, tensor: int) -> tuple[Box, ...]:
    """Return each worker's shard of a tensor: a range (begin, end) of each dimension."""
    return _list_boxes(find_shards(choices.problem, tensor, choices.layout(tensor)))


def count_own_positions(choices: Choices, operator: int) -> dict[int, tuple[int, ...]]:
    """Return {axis: lengths of the workers' parts, each without its overlap with the next part}.

    For [0, 4), [3, 7) and [6, 10), the lengths are 3, 3 and 4. Axes without overlaps are left out.
    """
    problem = choices.problem
    axes, extents = choices.operators[operator].tolist(), problem.accesses[operator].extents
    if _is_even(extents, axes, problem.factors):
        return {}
    parts = list_parts(choices, operator)
    intervals_by_axis = zip(zip(*parts, strict=True), zip(*_cut_overlaps(parts), strict=True), strict=True)
    return {
        axis: tuple(end - begin for begin, end in cut_intervals)
        for axis, (intervals, cut_intervals) in enumerate(intervals_by_axis)
        if intervals != cut_intervals
    }


def _is_even(extents: Sequence[int], axes: Sequence[int], factors: Sequence[int]) -> bool:
    part_extents = list(extents)
    for axis, factor in zip(axes, factors, strict=True):
        if axis != REPLICATED:
            if part_extents[axis] % factor:
                return False
            part_extents[axis] //= factor
    return True


def _cut_overlaps(parts: Sequence[Box]) -> list[Box]:
    begins = [sorted({begin for begin, _ in bounds}) for bounds in zip(*parts, strict=True)]

    def cut(d: int, begin: int, end: int) -> tuple[int, int]:
        following = bisect_right(begins[d], begin)
        return begin, min([end, *begins[d][following : following + 1]])

    return [tuple(cut(d, *interval) for d, interval in enumerate(part)) for part in parts]


def _list_boxes(boxes: _core.Int64Array) -> tuple[Box, ...]:
    return tuple(tuple((int(begin), int(end)) for begin, end in box) for box in boxes.tolist())
