"""Find how many workers a training step needs to fit into a device's memory, or explain why no number fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tofu.analysis import InputAccess, OutputAccess
from tofu.errors import InfeasibleError
from tofu.formatting import format_bytes
from tofu.search import Problem
from tofu.sizes import format_limit

T = TypeVar("T")

MOST_COUNTS = 12  # numbers of workers to try; each takes a search
MOST_WORKERS = 64  # largest number of workers to try
MOST_NAMES = 3  # in a message
GENERAL_ADVICE = "Make these smaller, or describe the operator with axes that split them."


def find_fitting(least: int, limit_bytes: int, make: Callable[[int], T], needed: Callable[[T], int]) -> T | None:
    """Return `make(workers)` for the smallest number of workers that fits into `limit_bytes` on each worker.

    The numbers from `least` on are tried, at most `MOST_COUNTS` of them, up to `MOST_WORKERS`. Numbers without a plan
    are skipped. `needed` returns the bytes that a result needs on a worker. Returns None if no number fits.
    """
    for workers in _counts_tried(least):
        try:
            made = make(workers)
        except InfeasibleError:
            continue
        if needed(made) <= limit_bytes:
            return made
    return None


def _counts_tried(least: int) -> range:
    return range(least, min(least + MOST_COUNTS - 1, MOST_WORKERS) + 1)


def explain_none(problem: Problem, limit_bytes: int, least: int) -> str:
    """Explain why no number of workers from `least` on fits, and what to do.

    Every worker holds the tensors that no axis of an operator splits. If the largest sum of such tensors of an operator
    takes half of the limit or more, that operator is named. Otherwise a smaller batch is advised.
    """
    graph = problem.graph
    whole = [_list_whole(problem, position) for position in range(len(graph.operators))]
    sizes = [sum(graph.tensors[tensor].size_bytes for tensor in tensors) for tensors in whole]
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    tried = _counts_tried(least)
    which = (
        f" ({tried[0]} to {tried[-1]} were tried)"
        if tried
        else f" (it takes {least} or more; up to {MOST_WORKERS} are tried)"
    )
    found = f"No number of workers was found that fits into {format_limit(limit_bytes)} each{which}."
    if 2 * sizes[largest] < limit_bytes:
        return f"{found} A smaller batch needs less."
    operator = graph.operators[largest]
    tensors = sorted((graph.tensors[tensor] for tensor in whole[largest]), key=lambda tensor: -tensor.size_bytes)
    names = ", ".join(f"{tensor.name} ({format_bytes(tensor.size_bytes)})" for tensor in tensors[:MOST_NAMES])
    more = f" and {len(tensors) - MOST_NAMES} more" if tensors[MOST_NAMES:] else ""
    advice = problem.accesses[largest].description.advice or GENERAL_ADVICE
    return (
        f"{found} {operator.op} {operator.full_name} needs all of these tensors on every worker, because none of its axes splits them: "
        f"{names}{more}. {advice}"
    )


def _list_whole(problem: Problem, position: int) -> list[int]:
    """Return the inputs and outputs of an operator that stay whole, whichever of its axes is split."""
    operator, access = problem.graph.operators[position], problem.accesses[position]
    found = [t for t, read in zip(operator.inputs, access.inputs, strict=True) if read.is_read and not _is_cut(read)]
    found += [t for t, out in zip(operator.outputs, access.outputs, strict=True) if out.is_written and not _is_cut(out)]
    return list(dict.fromkeys(found))


def _is_cut(access: InputAccess | OutputAccess) -> bool:
    return any(row.terms for row in access.rows)
