"""Whether data parallelism would move less than a plan does, and what memory that takes."""

from __future__ import annotations

from tofu.errors import InfeasibleError, TofuError
from tofu.graph import TensorKind
from tofu.pipeline import Partition
from tofu.plan import format_bytes
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate

LEAST_SHARE = 0.01


def plan_data_parallel(problem: Problem) -> Choices:
    """Everything split along the batch, parameters whole on every worker. Raises a TofuError where that does not apply to a model."""
    if problem.equal.operators:
        raise InfeasibleError("Data parallelism would add up the gradients of every time step apart.")
    return ALGORITHMS["data-parallel"].solve(problem).choices


def describe_data_parallel(partition: Partition) -> str:
    """A sentence where data parallelism would move less than the plan, by a share that shows, else nothing."""
    plan = partition.plan
    try:
        moved = evaluate(plan_data_parallel(partition.searched.problem)).total_bytes
    except TofuError:
        return ""
    if moved >= (1 - LEAST_SHARE) * plan.communication_bytes:  # neither of which need move anything
        return ""
    whole = sum(tensor.size_bytes for tensor in partition.graph.tensors if tensor.kind is TensorKind.PARAMETER)
    return (
        f"Data parallelism would move {format_bytes(moved)}, {1 - moved / plan.communication_bytes:.0%} less, with all "
        f"{format_bytes(whole)} of parameters on every worker, and their gradients and optimizer states. A memory limit (memory_limit=, "
        '--memory-limit) lets the search keep as much whole as fits; replicate="free" (--replicate free) keeps whatever saves traffic.'
    )
