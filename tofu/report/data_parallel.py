"""Advise the user to choose data parallelism if it transfers less than the plan."""

from __future__ import annotations

from tofu.errors import InfeasibleError, TofuError
from tofu.formatting import format_bytes
from tofu.graph import TensorKind
from tofu.pipeline import Partition
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate

LEAST_SHARE = 0.01  # smaller savings, as a share of the plan's communication, are not mentioned


def plan_data_parallel(problem: Problem) -> Choices:
    """Return the plan that splits only the batch, and replicates all parameters.

    Raises TofuError if the model cannot be split this way.
    """
    if problem.equal.operators:
        raise InfeasibleError("Data parallelism would reduce the gradients of each time step separately.")
    return ALGORITHMS["data-parallel"].solve(problem).choices


def describe_data_parallel(partition: Partition) -> str:
    """Return advice to use data parallelism, or "".

    The advice is given if data parallelism transfers over 1 % less than the plan.
    """
    plan = partition.plan
    try:
        moved_bytes = evaluate(plan_data_parallel(partition.searched.problem)).total_bytes
    except TofuError:
        return ""
    if moved_bytes >= (1 - LEAST_SHARE) * plan.communication_bytes:  # both may be 0
        return ""
    parameters = [tensor for tensor in partition.graph.tensors if tensor.kind is TensorKind.PARAMETER]
    parameter_bytes = sum(tensor.size_bytes for tensor in parameters)
    return (
        f"Data parallelism would move {format_bytes(moved_bytes)}, {1 - moved_bytes / plan.communication_bytes:.0%} less. It "
        f"replicates all {format_bytes(parameter_bytes)} of parameters, their gradients and optimizer states on every worker. "
        "With a memory limit (memory_limit=, --memory-limit) the search replicates as much as fits; with "
        'replicate="free" (--replicate free), whatever saves communication.'
    )
