"""Find the number of workers on which a training step fits into the devices' memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tofu.analysis import InputAccess, OutputAccess
from tofu.errors import InfeasibleError
from tofu.formatting import format_bytes, format_count
from tofu.planning.progress import show_progress
from tofu.search import Problem
from tofu.sizes import format_limit

T = TypeVar("T")

MOST_COUNTS = 12  # each number takes a search
MOST_WORKERS = 64  # largest number of workers to try
MOST_NAMES = 3  # in a message
GENERAL_ADVICE = "Make these smaller, or describe the operator with axes that split them."


def find_fitting(
    least: int, limit_bytes: int, plan_for: Callable[[int], T], count_needed_bytes: Callable[[T], int]
) -> T | None:
    """Return the first plan that needs at most `limit_bytes` on each worker, or None.

    Try up to 12 numbers of workers: `least`, `least` + 1, and so on, but no number above 64. `plan_for(workers)` makes
    a plan, and `count_needed_bytes` returns its bytes.
    """
    for workers in _list_counts(least):
        try:
            with show_progress(f"trying {format_count(workers, 'worker')}"):
                result = plan_for(workers)
        except InfeasibleError:
            continue
        if count_needed_bytes(result) <= limit_bytes:
            return result
    return None


def _list_counts(least: int) -> range:
    return range(least, min(least + MOST_COUNTS - 1, MOST_WORKERS) + 1)


def explain_none(problem: Problem, limit_bytes: int, least: int) -> str:
    """Explain why the model does not fit on `least` or more workers, and what to do.

    The cause is a large operator that cannot be split, or the size of the batch.
    """
    graph = problem.graph
    unsplit_by_operator = [_list_unsplit(problem, position) for position in range(len(graph.operators))]
    unsplit_bytes = [sum(graph.tensors[tensor].size_bytes for tensor in tensors) for tensors in unsplit_by_operator]
    largest = max(range(len(unsplit_bytes)), key=unsplit_bytes.__getitem__)
    counts = _list_counts(least)
    tried = f"it takes {least} or more; up to {MOST_WORKERS} are tried"
    if counts:
        tried = f"{counts[0]} to {counts[-1]} were tried"
    message = f"No number of workers was found that fits into {format_limit(limit_bytes)} each ({tried})."
    if 2 * unsplit_bytes[largest] < limit_bytes:
        return f"{message} A smaller batch needs less."
    operator = graph.operators[largest]
    unsplit = (graph.tensors[tensor] for tensor in unsplit_by_operator[largest])
    tensors = sorted(unsplit, key=lambda tensor: -tensor.size_bytes)
    names = ", ".join(f"{tensor.name} ({format_bytes(tensor.size_bytes)})" for tensor in tensors[:MOST_NAMES])
    more = f" and {len(tensors) - MOST_NAMES} more" if tensors[MOST_NAMES:] else ""
    advice = problem.accesses[largest].description.advice or GENERAL_ADVICE
    return (
        f"{message} {operator.op} {operator.full_name} needs all of these tensors on every worker, because none of its axes splits them: "
        f"{names}{more}. {advice}"
    )


def _list_unsplit(problem: Problem, position: int) -> list[int]:
    operator, access = problem.graph.operators[position], problem.accesses[position]
    inputs = (t for t, read in zip(operator.inputs, access.inputs, strict=True) if read.is_read and not _is_split(read))
    outputs = zip(operator.outputs, access.outputs, strict=True)
    unsplit = [*inputs, *(t for t, written in outputs if written.is_written and not _is_split(written))]
    return list(dict.fromkeys(unsplit))


def _is_split(access: InputAccess | OutputAccess) -> bool:
    return any(row.terms for row in access.rows)
