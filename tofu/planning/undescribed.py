"""The cost of operators without a description, which every worker computes whole if `undescribed="replicate"`."""

from __future__ import annotations

from collections import Counter

from tofu import _core
from tofu.graph import Graph, Operator
from tofu.plan import Undescribed
from tofu.search.problem import Problem


def list_undescribed(problem: Problem, cost: _core.Cost) -> dict[str, Undescribed]:
    """Return {operator name: cost} for operators without a description. `cost` is the whole plan's cost."""
    graph = problem.graph
    reason_by_operator = {n: access.undescribed for n, access in enumerate(problem.accesses) if access.undescribed}
    if not reason_by_operator:
        return {}
    fetched_bytes: Counter[int] = Counter()
    for group, _, _, count, _ in cost.items:
        fetched_bytes[group] += count
    touched_bytes = [_count_touched_bytes(graph, operator) for operator in graph.operators]
    share_of_a_byte = 1 / max(sum(touched_bytes), 1)
    return {
        graph.operators[n].name: Undescribed(reason, fetched_bytes[n], round(touched_bytes[n] * share_of_a_byte, 6))
        for n, reason in reason_by_operator.items()
    }


def _count_touched_bytes(graph: Graph, operator: Operator) -> int:
    tensors = [graph.tensors[t] for t in (*operator.inputs, *operator.outputs)]
    return sum(tensor.size_bytes for tensor in tensors) * max((tensor.times for tensor in tensors), default=1)
