"""Shards: the region of each tensor that a worker stores."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tofu import _core
from tofu.search.choices import Choices
from tofu.search.problem import Problem


def find_shards(problem: Problem, tensor: int, layout: Sequence[int]) -> _core.Int64Array:
    """Return the region of a tensor that each worker stores, as an array [workers, dimensions, (begin, end)]."""
    return _core.worker_boxes(problem.native, list(problem.factors), "tensor", tensor, list(layout))


def count_state_bytes(choices: Choices, states: int) -> tuple[int, ...]:
    """Return the bytes of optimizer state on each worker.

    The optimizer has `states` arrays for each weight, with the weight's shape and type.
    """
    problem = choices.problem
    held = [0] * prod(problem.factors)
    for position in problem.graph.updated if states else ():
        boxes = find_shards(problem, position, choices.layout(position))
        elements = (boxes[:, :, 1] - boxes[:, :, 0]).prod(axis=1).tolist()
        item_bytes = states * problem.graph.tensors[position].item_bytes
        held = [before + count * item_bytes for before, count in zip(held, elements, strict=True)]
    return tuple(held)
