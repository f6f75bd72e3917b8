"""The input of a search: a graph, the axes along which its operators can be split, and the number of workers.

The native graph also has an operator for the update of each weight. It reads the gradient or the next value, split like
the weight (decision 7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod

from tofu import _core
from tofu.analysis import OperatorAccess
from tofu.errors import InfeasibleError
from tofu.graph import Graph, Operator
from tofu.search.memory_weights import weigh_tensors
from tofu.search.native import (
    FETCH_RULES,
    TransferRules,
    build_native_graph,
    list_cheap_operators,
    list_uneven,
    tie_equal_parts,
)
from tofu.search.recurrence import NO_PARTS, EqualParts, find_equal_parts
from tofu.search.repeated_layers import PERIOD, find_repeated_layers
from tofu.search.rounds import always_divides, leaves_remainder
from tofu.search.topology import Arrangement


@dataclass(frozen=True, eq=False)
class Problem:
    """The input of a search.

    Attributes
    ----------
    graph, accesses
        The semantic graph, and the axes and regions of each operator.
    arrangement
        The prime factors of the number of workers, one for each round, and the interconnect's bandwidths if known.
    equal
        The equal time steps of recurrences. Equal operators share the elements that they read from other workers.
    native
        The graph in the native code's format. Equal operators may be split differently.
    make_search_graph
        Function that takes equal parts, and returns a native graph that splits them alike.
    rules
        The rules by which the engine splits and transfers data.
    layers
        The repeated layers that a search splits alike, if `rules.ties_layers` is True.
    period
        If 1, all layers are split alike. If 2, layers 1, 3, 5, ... are split alike, and layers 2, 4, 6, ... are split
        alike.
    tied_steps
        The equal time steps that a search splits alike.
    always_ties
        True if repeated layers are never planned separately.
    find_layers
        Function that returns the repeated layers for a `period`.
    """

    graph: Graph
    accesses: tuple[OperatorAccess, ...]
    arrangement: Arrangement
    equal: EqualParts
    native: _core.Graph
    make_search_graph: Callable[..., _core.Graph]
    rules: TransferRules = FETCH_RULES
    layers: EqualParts = NO_PARTS
    period: int = PERIOD
    tied_steps: EqualParts = NO_PARTS
    always_ties: bool = False
    find_layers: Callable[[int], EqualParts] = lambda period: NO_PARTS

    @property
    def factors(self) -> tuple[int, ...]:
        """The number of parts in each round of splitting, such as (3, 2) for 6 workers."""
        return self.arrangement.factors

    @property
    def search_graph(self) -> _core.Graph:
        """The graph for the native code. Equal time steps get one common split, and so do repeated layers."""
        return self.make_search_graph(self.tied_steps, self.layers)

    def count_points(self, operator: Operator) -> int:
        """Return the product of the lengths of an operator's axes, as a measure of its work."""
        return prod(self.accesses[self.graph.operator_index[operator.name]].extents)

    def without_ties(self) -> Problem:
        """Return a copy in which equal time steps and repeated layers may be split differently."""
        return replace(self, tied_steps=NO_PARTS, layers=NO_PARTS)

    def list_attempts(self, operators: Mapping[int, list[int]], tensors: Mapping[int, list[int]]) -> Iterator[Problem]:
        """Yield variants of the problem, in the order in which to search them.

        First, all repeated layers are split alike. Then every second layer is split alike. Last, each layer is planned
        separately. If `always_ties` is True, there is only the first variant.
        """
        tied = self.with_fixed_choices(operators, tensors)
        if not tied.layers.operators:
            yield tied
            return
        alike = replace(self, layers=self.find_layers(1), period=1).with_fixed_choices(operators, tensors)
        if alike.layers.operators:
            yield alike
        if not (self.always_ties and alike.layers.operators):
            yield tied
        if not self.always_ties:
            yield replace(tied, layers=NO_PARTS)

    def with_fixed_choices(self, operators: Mapping[int, list[int]], tensors: Mapping[int, list[int]]) -> Problem:
        """Return a copy for a search with these fixed choices.

        Equal time steps are split alike if their fixed choices are equal. Repeated layers are split alike if all of
        them have equal fixed choices.
        """
        layers = self.layers
        fixed = ((layers.operators, operators), (layers.tensors, tensors))
        tells_apart = any(
            len({tuple(choices.get(member, ())) for member in family}) > 1
            for families, choices in fixed
            if choices
            for family in families
        )
        tied_steps = self.tied_steps.split_by_fixed_choices(operators, tensors)
        return replace(self, tied_steps=tied_steps, layers=NO_PARTS if tells_apart else layers)

    @property
    def ties(self) -> str:
        """A limit of the search in words, such as " among plans that treat equal time steps alike"."""
        has_loops = bool(self.graph.carries) or any(tensor.times > 1 for tensor in self.graph.tensors)
        loops = " with one layout per loop" if has_loops else ""
        alike = []
        if self.tied_steps.operators:
            alike.append("equal time steps alike" + (" where hints do" if self.tied_steps != self.equal else ""))
        if self.layers.operators:
            alike.append(f"{'every second' if self.period == PERIOD else 'each'} repeated layer alike")
        treated = f" that treat {' and '.join(alike)}" if alike else ""
        return f" among plans{loops}{treated}" if loops or treated else ""

    def arrange(self, arrangement: Arrangement) -> Problem:
        """Return a copy that splits in other rounds (such as 2 x 3 instead of 3 x 2) or has another interconnect."""
        return replace(self, arrangement=arrangement)

    def split_all(self) -> Problem:
        """Return a copy in which cheap operators must be split, too."""
        rules = replace(self.rules, repeats_operators=False)
        return self._rebuild(rules, frozenset())

    def _rebuild(self, rules: TransferRules, even: frozenset[tuple[int, ...]]) -> Problem:
        native = build_native_graph(self.graph, self.accesses, self.equal, rules, self.factors, even)
        make_search_graph = cache(partial(tie_equal_parts, native, self.graph))
        return replace(self, native=native, make_search_graph=make_search_graph, rules=rules)

    def split_evenly(self) -> Problem | None:
        """Return a copy in which tensors that can be divided equally have no overlapping shards.

        Return None if nothing changes.
        """
        shapes = {self.graph.tensors[position].shape for position in list_uneven(self.graph, self.rules, self.factors)}
        shapes |= {access.extents for access in self.accesses}
        even = frozenset(
            shape
            for shape in shapes
            if any(leaves_remainder(extent, self.factors) for extent in shape) and always_divides(shape, self.factors)
        )
        return self._rebuild(self.rules, even) if self.rules.overlaps and even else None

    def with_memory_price(self, price: float, split: Collection[int] = ()) -> Problem:
        """Return a copy in which the cost of a plan includes `price` for each byte that workers store.

        All tensors except those in `split` may be replicated.
        """
        weights = weigh_tensors(self.graph)

        def make_search_graph(*parts: EqualParts) -> _core.Graph:
            native = tie_equal_parts(self.native, self.graph, *parts)
            for tensor in set(range(len(weights))).difference(split):
                native.hold(tensor, price * weights[tensor])
            if self.rules.repeats_operators:
                for operator in list_cheap_operators(self.graph, self.accesses):
                    native.repeat(operator)
            return native

        return replace(self, make_search_graph=cache(make_search_graph))

    def __repr__(self) -> str:
        counts = f"{len(self.graph.operators)} operators and {len(self.graph.tensors)} tensors"
        count = len(self.equal.operators) + len(self.layers.operators)
        equal = f", {count} sets of equal operators" if count else ""
        return f"<Problem of {counts}{equal}, in rounds of {' x '.join(map(str, self.factors))}>"


@contextmanager
def refuse_excess(problem: Problem) -> Iterator[None]:
    """Raise InfeasibleError if the code in this `with` block runs out of memory, or counts beyond 64 bits."""
    what = f"{prod(problem.factors)} workers and {len(problem.graph.operators)} operators"
    try:
        yield
    except MemoryError as error:
        raise InfeasibleError(
            f"Planning for {what} ran out of memory before there was a plan. Use fewer workers, a machine with more memory, or hints= that "
            "fix choices."
        ) from error
    except OverflowError as error:
        raise InfeasibleError(
            f"The step is too large to plan for {what}: {error}. Use smaller shapes, fewer steps of loops or faster levels in topology=."
        ) from error


def make_problem(
    graph: Graph,
    accesses: Sequence[OperatorAccess],
    factors: Sequence[int],
    equal: EqualParts | None = None,
    rules: TransferRules = FETCH_RULES,
) -> Problem:
    """Return the problem of splitting `graph`, with a round for each of `factors`."""
    accesses = tuple(accesses)
    kinds: list[object] = [(access.axes, access.extents) for access in accesses]
    equal = (find_equal_parts(graph) if equal is None else equal).refine(kinds)
    ties_layers = rules.ties_layers and equal == NO_PARTS

    @cache
    def find_layers(period: int) -> EqualParts:
        return find_repeated_layers(graph, accesses, period).refine(kinds) if ties_layers else NO_PARTS

    native = build_native_graph(graph, accesses, equal, rules, factors)
    make_search_graph = cache(partial(tie_equal_parts, native, graph))
    return Problem(
        graph,
        accesses,
        Arrangement(tuple(factors)),
        equal,
        native,
        make_search_graph,
        rules,
        layers=find_layers(PERIOD),
        tied_steps=equal,
        find_layers=find_layers,
    )
