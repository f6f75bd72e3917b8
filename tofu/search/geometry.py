"""Where the parts of a tensor lie."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tofu import _core
from tofu.search.choices import Choices
from tofu.search.problem import Problem


def find_shards(problem: Problem, tensor: int, layout: Sequence[int]) -> _core.Int64Array:
    """Where each worker's shard of a tensor lies: [workers, dimensions, (begin, end)]. `layout`: the dimension split at each step."""
    return _core.shards(problem.native, list(problem.factors), tensor, list(layout))


def find_scattered_shards(problem: Problem, tensor: int, layout: Sequence[int]) -> _core.Int64Array:
    """The same, each shard cut among the workers that have copies of it, as a sum is added up in parts. A part may be empty."""
    return _core.scattered_shards(problem.native, list(problem.factors), tensor, list(layout))


def count_state_bytes(problem: Problem, choices: Choices, states: int) -> tuple[int, ...]:
    """The bytes of each worker's shards of what an optimizer keeps beside the weights, so many `states` of a weight's shape and type."""
    held = [0] * prod(problem.factors)
    for position in problem.graph.updated if states else ():
        boxes = find_shards(problem, position, choices.layout(position))
        cells = (boxes[:, :, 1] - boxes[:, :, 0]).prod(axis=1).tolist()
        item_bytes = states * problem.graph.tensors[position].item_bytes
        held = [before + count * item_bytes for before, count in zip(held, cells, strict=True)]
    return tuple(held)
