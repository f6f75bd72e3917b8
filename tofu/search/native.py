"""Convert a graph to the native graph that csrc/core searches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias, get_args

from tofu import _core
from tofu.analysis import OperatorAccess, Row, find_uneven_axes
from tofu.errors import UnsupportedError, raise_together
from tofu.graph import Graph, Operator, Phase, Tensor, make_label
from tofu.plan import REPLICATION_LIMIT_BYTES
from tofu.search.recurrence import EqualParts
from tofu.search.rounds import can_divide
from tofu.validation import LARGEST_COUNT

Extents: TypeAlias = tuple[int, ...]
Uneven: TypeAlias = Literal["none", "needed", "free"]
MOST_PLAN_BYTES = 2**50
"""The most bytes of one tensor that one operator may transfer (kForbiddenBytes in csrc/core/cost/cost.h)."""
MOST_NAMES = 3  # in a message
UNEVEN: tuple[str, ...] = get_args(Uneven)
"""Values of `TransferRules.overlaps_given`."""


@dataclass(frozen=True)
class TransferRules:
    """The rules by which a framework splits and transfers data. The cost of a plan depends on these rules.

    Attributes
    ----------
    splits_equally
        True if all parts of a dimension or axis must be equally long.
    overlaps
        True if a length of 10 is split over 3 workers into overlapping parts (tofu/analysis/uneven.py). Otherwise, it
        is not split.
    overlaps_given
        Arguments of the step that may have overlapping parts: "none", "needed" (large arguments that have no equal
        parts), or "free" (all).
    shares_regions
        True if all operators of a phase share the elements that a worker reads (csrc/core/cost/sharing.h). False if
        only equal time steps share them.
    stages_small_sums
        True if each worker computes a part of a small sum, and the parts are then exchanged. False if each worker reads
        all addends.
    relays_in_groups
        True for hierarchical collectives: a group of workers receives each element once, and sends sums of partial
        results. False if all workers read directly from each other.
    repeats_operators
        True if all workers may repeat cheap operators, such as additions.
    ties_layers
        True if repeated layers are planned once (tofu/search/repeated_layers.py).
    """

    splits_equally: bool = False
    overlaps: bool = False
    overlaps_given: Uneven = "none"
    shares_regions: bool = False
    stages_small_sums: bool = False
    relays_in_groups: bool = False
    repeats_operators: bool = False
    ties_layers: bool = False


FETCH_RULES = TransferRules()
"""The rules of a framework in which each worker reads what it needs from the memory of other workers."""

COLLECTIVE_RULES = TransferRules(
    splits_equally=True,
    overlaps=True,
    shares_regions=True,
    stages_small_sums=True,
    relays_in_groups=True,
    repeats_operators=True,
    ties_layers=True,
)
"""The rules of a framework in which all workers run one program with collectives."""


def build_native_graph(
    graph: Graph,
    accesses: Sequence[OperatorAccess],
    equal: EqualParts,
    rules: TransferRules,
    factors: Sequence[int],
    even: frozenset[Extents] = frozenset(),
) -> _core.Graph:
    """Convert a graph for the search in C++. Tensors and operators keep their numbers.

    Tensors whose shape is in `even` are not split into overlapping parts. Raises UnsupportedError if a tensor is too
    large to count its bytes in 64 bits.
    """
    check_counts(graph, prod(factors))
    native = _core.Graph()
    if rules.splits_equally:
        native.split_equally()
    if rules.shares_regions:
        native.share_regions()
    if rules.stages_small_sums:
        native.stage_small_sums()
    if rules.relays_in_groups:
        native.relay_in_groups()
    live = find_live_operators(graph, accesses)
    replicable = list_replicable(graph)
    first = {operator: family[0] for family in equal.operators for operator in family}
    for tensor, label, tiny in zip(graph.tensors, graph.tensor_labels, replicable, strict=True):
        native.add_tensor(tensor.shape, tensor.moved_item_bytes, tiny, label, tensor.times)
    if rules.overlaps:
        for position in list_uneven(graph, rules, factors):
            if graph.tensors[position].shape not in even:
                native.split_unevenly(position)
    models: dict[object, int] = {}  # for each access, the first operator that has it
    for position, access in enumerate(accesses):
        operator, is_live = graph.operators[position], position in live
        model = models.setdefault((id(access), is_live, operator.mutates), position)
        leader = position if operator.leader is None else operator.leader
        links = (
            int(operator.phase),
            first.get(leader, leader),
            graph.operator_labels[position],
            _shared_choice(operator),
        )
        if model == position:
            overlaps = rules.overlaps and access.extents not in even
            _add_operator(native, operator, access, is_live, *links, overlaps=overlaps)
        else:
            native.add_operator_like(model, operator.inputs, operator.outputs, *links)
    if rules.repeats_operators:
        for position in list_cheap_operators(graph, accesses):
            if all(replicable[t] for t in graph.operators[position].outputs):
                native.repeat(position)
    for variable, needed in graph.updates:
        _add_update(native, graph, variable, needed)
    untrained = (gradient for variable, gradient in graph.gradients.items() if variable not in graph.updated)
    for position in dict.fromkeys((*graph.outputs, *untrained)):
        native.mark_output(position)
    for carry in graph.carries:
        native.tie_tensors(carry.tensor, carry.last)
    return native


def check_counts(graph: Graph, workers: int) -> None:
    """Raise UnsupportedError if the number of transferred bytes may be too large for a 64-bit integer."""
    most = [2 * workers * prod(tensor.shape) * tensor.moved_item_bytes for tensor in graph.tensors]
    problems = [
        f"{tensor.name} of shape {tensor.shape}: {tensor.size_bytes:,} bytes, {tensor.times:,} x in a step, {count:,} in all"
        for tensor, count in zip(graph.tensors, most, strict=True)
        if count > LARGEST_COUNT
    ]
    limit = f"costs are counted up to 2^62 = {LARGEST_COUNT:,} bytes. Use smaller shapes, fewer steps of loops or fewer workers"
    raise_together(
        UnsupportedError,
        f"All of a tensor may move twice to each of {workers} workers, and {limit}. These tensors are too large:",
        problems[:MOST_NAMES],
    )
    uses = Counter(tensor for operator in graph.operators for tensor in (*operator.inputs, *operator.outputs))
    total = sum(min(count, MOST_PLAN_BYTES) * (uses[tensor] + 1) for tensor, count in enumerate(most))
    if total > LARGEST_COUNT:
        raise UnsupportedError(
            f"The {len(most):,} tensors of the graph may move {total:,} bytes among {workers} workers, and {limit}."
        )


def tie_equal_parts(native: _core.Graph, graph: Graph, *parts: EqualParts) -> _core.Graph:
    """Return a copy of a native graph. Equal operators get one common split, and so do equal tensors."""
    tied = native.copy()
    first = {operator: family[0] for part in parts for family in part.operators for operator in family}
    tied.share_choices(
        [
            (position, leader)
            for position, leader in first.items()
            if position != leader and _shared_choice(graph.operators[position]) < 0
        ]
    )
    replicable = list_replicable(graph)
    for family in (family for part in parts for family in part.tensors):
        for position in family[1:]:
            if replicable[position] == replicable[family[0]]:
                tied.tie_tensors(family[0], position)
    return tied


def list_replicable(graph: Graph) -> list[bool]:
    """Return a bool for each tensor: True if it may be replicated.

    Small tensors, tensors inside a replaced operator, and tensors updated in place may be replicated.
    """
    return [
        tensor.size_bytes < REPLICATION_LIMIT_BYTES or tensor.is_inner or position in graph.written_in_place
        for position, tensor in enumerate(graph.tensors)
    ]


def list_uneven(graph: Graph, rules: TransferRules, factors: Sequence[int]) -> list[int]:
    """Return the tensors that `rules` allow to split into overlapping shards."""
    returned = {*graph.outputs, *graph.gradients.values()}
    return [
        n
        for n, tensor in enumerate(graph.tensors)
        if n not in returned and (not tensor.exists_before_step or _given_may_overlap(tensor, rules, factors))
    ]


def _given_may_overlap(tensor: Tensor, rules: TransferRules, factors: Sequence[int]) -> bool:
    if rules.overlaps_given == "needed":
        return tensor.size_bytes >= REPLICATION_LIMIT_BYTES and not can_divide(tensor.shape, tuple(factors))
    return rules.overlaps_given == "free"


def _add_operator(
    native: _core.Graph,
    operator: Operator,
    access: OperatorAccess,
    is_live: bool,
    phase: int,
    group: int,
    label: int,
    same_choice_as: int,
    overlaps: bool,
) -> None:
    reads = enumerate(zip(operator.inputs, access.inputs, strict=True))
    native.add_operator(
        access.extents,
        [
            (
                t,
                read.rows,
                read.addend_axes,
                read.fill,
                slot in operator.mutates,
                is_live and (read.is_read or slot in operator.mutates),
            )
            for slot, (t, read) in reads
        ],
        [(t, written.rows, written.combine) for t, written in zip(operator.outputs, access.outputs, strict=True)],
        phase=phase,
        group=group,
        label=label,
        same_choice_as=same_choice_as,
        fetched_axes=[access.axes.index(axis) for axis in access.fetched_axes],
        uneven_axes=find_uneven_axes(access) if overlaps else (),
        absent=_list_absent(access) if access.fetched_axes or access.is_always_fetched else (),
        always_fetched=access.is_always_fetched,
        nestings=[
            (access.axes.index(axis), access.axes.index(name))
            for axis, outer in access.outer_axes.items()
            for name in outer
        ],
    )


def _list_absent(access: OperatorAccess) -> list[tuple[int, int, Row]]:
    absent = enumerate([*(read.absent for read in access.inputs), *(written.absent for written in access.outputs)])
    return [(slot, *dimension) for slot, dimension in absent if dimension is not None]


def list_cheap_operators(graph: Graph, accesses: Sequence[OperatorAccess]) -> list[int]:
    """Return operators with little arithmetic: additions, for example, but not matrix products.

    An operator is cheap if (product of axis lengths) <= (elements of inputs and outputs). Operators that draw random
    numbers are left out.
    """
    sizes = [prod(tensor.shape) for tensor in graph.tensors]
    return [
        position
        for position, (operator, access) in enumerate(zip(graph.operators, accesses, strict=True))
        if not access.is_random and prod(access.extents) <= sum(sizes[t] for t in (*operator.inputs, *operator.outputs))
    ]


def _shared_choice(operator: Operator) -> int:
    if operator.leader is not None:
        return operator.leader
    return operator.forward if operator.stateful and operator.forward is not None else -1


def _add_update(native: _core.Graph, graph: Graph, variable: int, needed: int) -> None:
    shape = graph.tensors[variable].shape
    rows = [([(d, 1)], 0, 1) for d in range(len(shape))]
    native.add_operator(
        list(shape),
        [(needed, rows, [], 0.0)],
        [],
        phase=int(Phase.UPDATE),
        group=len(graph.operators) + variable,
        label=make_label("update", shape),
        follows_tensor=variable,
    )


def find_live_operators(graph: Graph, accesses: Sequence[OperatorAccess]) -> frozenset[int]:
    """Return the operators on which the graph's results depend."""
    wanted = set(graph.results)
    live: set[int] = set()
    for position in reversed(range(len(graph.operators))):
        operator, access = graph.operators[position], accesses[position]
        if operator.mutates or position in live or wanted.intersection(operator.outputs):
            live.add(position)
            wanted.update(t for t, read in zip(operator.inputs, access.inputs, strict=True) if read.is_read)
            if operator.stateful and operator.forward is not None:
                live.add(operator.forward)
    return frozenset(live)


def restore_names(message: str, graph: Graph) -> str:
    """Replace the numbers of operators and tensors in a native error message by their names."""

    def name(match: re.Match[str]) -> str:
        kind, number = match[1], int(match[2])
        known = graph.operators if kind == "operator" else graph.tensors
        if number >= len(known):
            return match[0]
        return f"{kind} {graph.operators[number].full_name if kind == 'operator' else graph.tensors[number].name}"

    return re.sub(r"(operator|tensor) (\d+)", name, message)
