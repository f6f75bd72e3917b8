"""The search problem: a graph, the strategies of its operators, and the rounds in which the workers split them.

Operators keep their positions in the semantic graph. An element-wise update follows for each variable that has one: it
takes the variable's layout, and reads the gradient or the next value in it (decision 7).
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
    FETCHES,
    Moves,
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
    """Input of a search, built by `pose_problem`.

    Attributes
    ----------
    graph, accesses
        The semantic graph and the access of each of its operators.
    arrangement
        The factors of the rounds, and the bandwidths of the interconnect's levels if a search minimises nanoseconds
        instead of bytes.
    equal
        The equal time steps, whose operators share their fetches.
    native
        The native graph without the ties of equal parts, which plans from outside need not respect.
    make_searched
        Returns the native graph for a search in which these parts are tied. It is cached over all arrangements.
    moves
        The rules by which the engine moves data.
    layers
        The repeated layers. A search gives their operators one choice if the engine asks for that; nothing else uses
        them.
    period
        The distance between layers that share one choice.
    tied_steps
        The equal time steps to which a search gives one choice. Hints may separate some.
    """

    graph: Graph
    accesses: tuple[OperatorAccess, ...]
    arrangement: Arrangement
    equal: EqualParts
    native: _core.Graph
    make_searched: Callable[..., _core.Graph]
    moves: Moves = FETCHES
    layers: EqualParts = NO_PARTS
    period: int = PERIOD
    tied_steps: EqualParts = NO_PARTS

    @property
    def factors(self) -> tuple[int, ...]:
        """The number of parts in each round."""
        return self.arrangement.factors

    @property
    def coarse(self) -> _core.Graph:
        """The native graph for a search."""
        return self.make_searched(self.tied_steps, self.layers)

    def count_points(self, operator: Operator) -> int:
        """Return the number of points of an operator's axes, as a measure of its work."""
        return prod(self.accesses[self.graph.operator_index[operator.name]].extents)

    def untie(self) -> Problem:
        """Return the problem for a search that decides for each operator and tensor separately."""
        return replace(self, tied_steps=NO_PARTS, layers=NO_PARTS)

    def list_looser(self) -> Iterator[Problem]:
        """Yield problems for searches that are smaller or cover other plans, if the search of this one is too large."""
        if self.layers.operators:
            kinds = _list_kinds(self.accesses)
            yield replace(self, layers=find_repeated_layers(self.graph, self.accesses, 1).refine(kinds), period=1)
            yield replace(self, layers=NO_PARTS)

    def keep_apart(self, operators: Mapping[int, list[int]], tensors: Mapping[int, list[int]]) -> Problem:
        """Return the problem without ties between choices that are fixed differently.

        Layers are all tied or none: none if only some of several equal ones are fixed. A choice fixed in one of several
        equal time steps holds for all of them, unless another one is fixed, too.
        """
        layers = self.layers
        asked = ((layers.operators, operators), (layers.tensors, tensors))
        tells_apart = any(
            len({tuple(choices.get(member, ())) for member in family}) > 1
            for families, choices in asked
            if choices
            for family in families
        )
        tied_steps = self.tied_steps.tell_apart(operators, tensors)
        return replace(self, tied_steps=tied_steps, layers=NO_PARTS if tells_apart else layers)

    @property
    def ties(self) -> str:
        """The plans that a search covers, in words; "" if it covers all.

        The body of a loop is planned once, and its carries have one layout. Unrolled, each step has separate layouts.
        """
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
        """Return the problem with other rounds or bandwidths."""
        return replace(self, arrangement=arrangement)

    def split_all(self) -> Problem:
        """Return the problem for a search that replicates no operators, not even cheap ones."""
        moves = replace(self.moves, repeats_operators=False)
        native = build_native_graph(self.graph, self.accesses, self.equal, moves, self.factors)
        make_searched = cache(partial(tie_equal_parts, native, self.graph))
        return replace(self, native=native, make_searched=make_searched, moves=moves)

    def split_evenly(self) -> Problem | None:
        """Return the problem without overlapping parts of extents that some round can split evenly; None if that changes nothing.

        Its plans are plans of this problem. A search that runs out of time finds better plans among fewer.
        """
        shapes = {self.graph.tensors[position].shape for position in list_uneven(self.graph, self.moves, self.factors)}
        shapes |= {access.extents for access in self.accesses}
        even = frozenset(
            shape
            for shape in shapes
            if any(leaves_remainder(extent, self.factors) for extent in shape) and always_divides(shape, self.factors)
        )
        if not self.moves.overlaps or not even:
            return None
        native = build_native_graph(self.graph, self.accesses, self.equal, self.moves, self.factors, even)
        make_searched = cache(partial(tie_equal_parts, native, self.graph))
        return replace(self, native=native, make_searched=make_searched)

    def hold(self, price: float, split: Collection[int] = ()) -> Problem:
        """Return the problem for a search that may replicate any tensor but those in `split`, and pays for held bytes.

        `price` is the cost of a byte that one worker holds for the whole training step, in the unit that the search minimises.
        """
        weights = weigh_tensors(self.graph)

        def make_searched(*parts: EqualParts) -> _core.Graph:
            native = tie_equal_parts(self.native, self.graph, *parts)
            for tensor in set(range(len(weights))).difference(split):
                native.hold(tensor, price * weights[tensor])
            if self.moves.repeats_operators:
                for operator in list_cheap_operators(self.graph, self.accesses):
                    native.repeat(operator)
            return native

        return replace(self, make_searched=cache(make_searched))

    def __repr__(self) -> str:
        counts = f"{len(self.graph.operators)} operators and {len(self.graph.tensors)} tensors"
        count = len(self.equal.operators) + len(self.layers.operators)
        equal = f", {count} sets of equal operators" if count else ""
        return f"<Problem of {counts}{equal}, in rounds of {' x '.join(map(str, self.factors))}>"


@contextmanager
def refuse_excess(problem: Problem) -> Iterator[None]:
    """Raise InfeasibleError if native code runs out of memory, or a byte count overflows."""
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


def pose_problem(
    graph: Graph,
    accesses: Sequence[OperatorAccess],
    factors: Sequence[int],
    equal: EqualParts | None = None,
    moves: Moves = FETCHES,
) -> Problem:
    """Return the problem of splitting `graph` in rounds of these factors. Equal time steps are found unless passed."""
    accesses = tuple(accesses)
    kinds = _list_kinds(accesses)
    equal = (find_equal_parts(graph) if equal is None else equal).refine(kinds)
    ties_layers = moves.ties_layers and equal == NO_PARTS
    layers = find_repeated_layers(graph, accesses).refine(kinds) if ties_layers else NO_PARTS
    native = build_native_graph(graph, accesses, equal, moves, factors)
    make_searched = cache(partial(tie_equal_parts, native, graph))
    return Problem(
        graph, accesses, Arrangement(tuple(factors)), equal, native, make_searched, moves, layers, tied_steps=equal
    )


def _list_kinds(accesses: Sequence[OperatorAccess]) -> list[object]:
    """Return what operators must have in common to share one choice."""
    return [(access.axes, access.extents) for access in accesses]
