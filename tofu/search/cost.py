"""What choices cost: bytes moved, or seconds on an interconnect, and what keeping or reading again would save."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tofu import _core
from tofu.errors import PlanError
from tofu.search.choices import Choices
from tofu.search.native import restore_names
from tofu.search.problem import Problem, refuse_excess


def evaluate(problem: Problem, choices: Choices) -> _core.Cost:
    """The bytes that choices move, in all, step by step, and by group and tensor.

    Raises PlanError for choices that no execution graph can follow.
    """
    with refuse_excess(problem):
        try:
            return _core.evaluate(problem.native, list(problem.factors), **choices.native)
        except ValueError as error:
            raise PlanError(f"The plan cannot be carried out: {restore_names(str(error), problem.graph)}") from error


def price(problem: Problem, choices: Choices) -> int:
    """What a search minimises: bytes, or nanoseconds where the levels of the interconnect have bandwidths."""
    with refuse_excess(problem):
        return _core.evaluate(
            problem.native, list(problem.factors), **choices.native, **problem.arrangement.nanoseconds
        ).total_bytes


def count_levels(problem: Problem, choices: Choices) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The bytes that cross each level of the interconnect, the top first, which sum to those of `evaluate`; and the fetches that do."""
    counts, waits = _core.count_levels(problem.native, list(problem.factors), **choices.native)
    return tuple(counts), tuple(waits)


def list_worth_keeping(problem: Problem, choices: Choices) -> list[int]:
    """The tensors whose fetched regions would save bytes if they were kept, those first that save most for each byte that stays.

    None where regions are shared: fetches are collectives then, of all workers at once, and what is kept serves single ones.
    """
    if problem.moves.shares_regions:
        return []
    weighed = _core.weigh_keeping(problem.native, list(problem.factors), choices.operators, choices.tensors)
    tensors, written = problem.graph.tensors, problem.graph.written_in_place
    saving = [
        (-saved * tensors[tensor].times / held, tensor)
        for tensor, (saved, held) in enumerate(weighed)
        if saved > 0 and tensor not in written and not tensors[tensor].is_inner
    ]
    return [tensor for _, tensor in sorted(saving)]


def list_worth_rereading(problem: Problem, choices: Choices) -> list[int]:
    """The tensors whose fetched regions operators share: first those of which least is read again for each byte, then the larger.

    None where regions are shared, which are values that the engine itself drops or makes anew.
    """
    if problem.moves.shares_regions:
        return []
    named = enumerate(problem.graph.tensors)
    tensors = [t for t, tensor in named if not tensor.is_inner and t not in choices.kept]
    shared = _count_read_bytes(problem, replace(choices, reread=()))
    alone = _count_read_bytes(problem, replace(choices, reread=tuple(tensors)))
    ratios = [(alone[t] / shared[t], -shared[t], t) for t in tensors if alone[t] > shared[t]]
    return [tensor for *_, tensor in sorted(ratios)]


def _count_read_bytes(problem: Problem, choices: Choices) -> Counter[int]:
    """Tensor -> the bytes that are read of it."""
    read: Counter[int] = Counter()
    for _, tensor, _, count, is_output in evaluate(problem, choices).items:
        if not is_output:
            read[tensor] += count
    return read
