"""Shards: the region of each tensor that a worker stores."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tofu import _core
from tofu.search.choices import Choices
from tofu.search.problem import Problem


def find_shards(problem: Problem, tensor: int, layout: Sequence[int]) -> _core.Int64Array:
    """Return the region of a tensor that each worker stores, as an array [workers, dimensions, (begin, end)]."""
    return _core.worker_boxes(problem.native, list(problem.factors), "tensor", tensor, list(layout))


def count_shard_bytes(choices: Choices, tensor: int) -> _core.Int64Array:
    """Return the bytes of a tensor that each worker stores."""
    boxes = find_shards(choices.problem, tensor, choices.layout(tensor))
    item_bytes = choices.problem.graph.tensors[tensor].item_bytes
    return np.asarray((boxes[..., 1] - boxes[..., 0]).prod(axis=1) * item_bytes)


def count_state_bytes(choices: Choices, states: int) -> tuple[int, ...]:
    """Return the bytes of optimizer state on each worker.

    The optimizer has `states` arrays for each weight, with the weight's shape and type.
    """
    problem = choices.problem
    held = np.zeros(prod(problem.factors), np.int64)
    for tensor in problem.graph.updated if states else ():
        held += states * count_shard_bytes(choices, tensor)
    return tuple(held.tolist())
