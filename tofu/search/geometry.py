"""Where the parts of a tensor lie."""

from __future__ import annotations

from collections.abc import Sequence

from tofu import _core
from tofu.search.problem import Problem


def find_shards(problem: Problem, tensor: int, layout: Sequence[int]) -> _core.Int64Array:
    """Where each worker's shard of a tensor lies: [workers, dimensions, (begin, end)]. `layout`: the dimension split at each step."""
    return _core.shards(problem.native, list(problem.factors), tensor, list(layout))
