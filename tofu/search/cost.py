"""The cost of a plan, in bytes or in time on an interconnect."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tofu import _core
from tofu.errors import PlanError
from tofu.search.choices import Choices
from tofu.search.native import restore_names
from tofu.search.problem import refuse_excess


def evaluate(choices: Choices) -> _core.Cost:
    """Count the bytes that workers transfer: in total, by round, and by operator and tensor.

    Raises PlanError if operators and tensors cannot be split like this.
    """
    problem = choices.problem
    with refuse_excess(problem):
        try:
            return _core.evaluate(problem.native, list(problem.factors), **choices.native)
        except ValueError as error:
            raise PlanError(f"The plan cannot be carried out: {restore_names(str(error), problem.graph)}") from error


def price(choices: Choices) -> int:
    """Return the number that a search minimises: bytes transferred, or nanoseconds if bandwidths are known."""
    problem = choices.problem
    with refuse_excess(problem):
        return _core.evaluate(
            problem.native, list(problem.factors), **choices.native, **problem.arrangement.nanoseconds
        ).total_bytes


def count_levels(choices: Choices) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bytes and the number of reads that cross each level of the interconnect.

    Level n belongs to round n, in which groups of workers are divided. A transfer crosses the level of the round that
    puts its two workers into different groups.
    """
    problem = choices.problem
    counts, waits = _core.count_levels(
        problem.native, list(problem.factors), **choices.native, **problem.arrangement.nanoseconds
    )
    return tuple(counts), tuple(waits)


def list_worth_keeping(choices: Choices) -> list[int]:
    """Return tensors that workers should keep after reading them, for later operators.

    They are sorted by the communication that they save per byte of memory, the largest first. The list is empty if
    workers always keep tensors (`TransferRules.shares_regions`).
    """
    problem = choices.problem
    if problem.rules.shares_regions:
        return []
    weighed = _core.weigh_keeping(problem.native, list(problem.factors), choices.operators, choices.tensors)
    tensors, written = problem.graph.tensors, problem.graph.written_in_place
    saving = [
        (-saved * tensors[tensor].times / held, tensor)
        for tensor, (saved, held) in enumerate(weighed)
        if saved > 0 and tensor not in written and not tensors[tensor].is_inner
    ]
    return [tensor for _, tensor in sorted(saving)]


def list_worth_rereading(choices: Choices) -> list[int]:
    """Return the tensors whose elements workers may read again for each operator, to save memory.

    They are sorted by the factor by which their communication grows, the smallest first. The list is empty if
    `TransferRules.shares_regions` is True.
    """
    problem = choices.problem
    if problem.rules.shares_regions:
        return []
    tensors = [t for t, tensor in enumerate(problem.graph.tensors) if not tensor.is_inner and t not in choices.kept]
    shared = _count_read_bytes(replace(choices, reread=()))
    alone = _count_read_bytes(replace(choices, reread=tuple(tensors)))
    ratios = [(alone[t] / shared[t], -shared[t], t) for t in tensors if alone[t] > shared[t]]
    return [tensor for *_, tensor in sorted(ratios)]


def _count_read_bytes(choices: Choices) -> Counter[int]:
    read: Counter[int] = Counter()
    for _, tensor, _, count, is_output in evaluate(choices).items:
        if not is_output:
            read[tensor] += count
    return read
