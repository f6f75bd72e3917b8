"""The search problem: one graph, how each of its operators can be split, and the steps in which the workers split all of them.

Operators keep their positions in the semantic graph; an update follows for each variable that has one, as an element-wise operator
that takes the variable's layout and reads the gradient, or the next value, there (decision 7).
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
from tofu.graph import Graph
from tofu.search.dataflow import trace_wiring
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
from tofu.search.repeated_layers import find_repeated_layers
from tofu.search.rounds import always_divides, leaves_remainder
from tofu.search.topology import Arrangement


@dataclass(frozen=True, eq=False)
class Problem:
    """What a search is given. `pose_problem` makes one.

    Attributes
    ----------
    graph, accesses
        The semantic graph and the access of each of its operators.
    arrangement
        The steps, and the bandwidths of the levels of the interconnect, where a search minimises nanoseconds in place of bytes.
    equal
        The equal time steps, whose operators share their fetches.
    native
        The native graph, without the ties of equal parts. Plans from outside need not respect these.
    layers
        The repeated layers. A search gives their operators one choice if the engine asks for that; nothing else uses them.
    make_searched
        Returns the native graph for a search in which these parts are tied. It is built once for all arrangements.
    moves
        The rules by which the engine moves data.
    tied_steps
        The equal time steps, as far as a search gives them one choice: hints may tell some apart.
    """

    graph: Graph
    accesses: tuple[OperatorAccess, ...]
    arrangement: Arrangement
    equal: EqualParts
    native: _core.Graph
    make_searched: Callable[..., _core.Graph]
    moves: Moves = FETCHES
    layers: EqualParts = NO_PARTS
    tied_steps: EqualParts = NO_PARTS

    @property
    def factors(self) -> tuple[int, ...]:
        """The number of parts of each step."""
        return self.arrangement.factors

    @property
    def coarse(self) -> _core.Graph:
        """The native graph for a search."""
        return self.make_searched(self.tied_steps, self.layers)

    def untie(self) -> Problem:
        """Return the same problem for a search that decides for each operator and tensor."""
        return replace(self, tied_steps=NO_PARTS, layers=NO_PARTS)

    def keep_apart(self, operators: Mapping[int, list[int]], tensors: Mapping[int, list[int]]) -> Problem:
        """Return the same problem where choices that are fixed differently are not tied.

        Layers are all tied or none: none if only some of several equal ones are fixed. What is fixed in one of several equal time steps is
        fixed in all, if nothing else is fixed in another one.
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
        """The plans that a search covers, in words; empty if it covers all.

        The body of a loop is planned once, and the loop carries its values in one layout. Unrolled, each step has layouts of its own.
        """
        has_loops = bool(self.graph.carries) or any(tensor.times > 1 for tensor in self.graph.tensors)
        loops = " with one layout per loop" if has_loops else ""
        alike = []
        if self.tied_steps.operators:
            alike.append("equal time steps alike" + (" where hints do" if self.tied_steps != self.equal else ""))
        if self.layers.operators:
            alike.append("every second repeated layer alike")
        treated = f" that treat {' and '.join(alike)}" if alike else ""
        return f" among plans{loops}{treated}" if loops or treated else ""

    def arrange(self, arrangement: Arrangement) -> Problem:
        """The same graph in other steps, or with other bandwidths."""
        return replace(self, arrangement=arrangement)

    def split_all(self) -> Problem:
        """The same problem for a search in which no operator is computed by all workers of a step, as cheap ones may be."""
        moves = replace(self.moves, repeats_operators=False)
        native = build_native_graph(self.graph, self.accesses, self.equal, moves, self.factors)
        make_searched = cache(partial(tie_equal_parts, native, self.graph))
        return replace(self, native=native, make_searched=make_searched, moves=moves)

    def split_evenly(self) -> Problem | None:
        """The same problem for a search in which parts overlap only of what some step cannot split without a rest; None where that is all.

        Its plans are plans of this problem. A search that does not end finds better ones among fewer.
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
        """The same problem for a search that may replicate any tensor at any step, but those in `split`, and pays for what is held.

        `price`: of a byte that one worker holds for the whole training step, in what the search minimises.
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
        return f"<Problem of {counts}{equal}, in steps of {' x '.join(map(str, self.factors))}>"


@contextmanager
def refuse_excess(problem: Problem) -> Iterator[None]:
    """Raise InfeasibleError if native code runs out of memory, or counts more bytes than it can."""
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
    """The problem of splitting `graph` in steps of so many parts each. The equal time steps are found where none are given."""
    accesses = tuple(accesses)
    kinds = [(access.axes, access.extents) for access in accesses]
    wiring = trace_wiring(graph) if equal is None or moves.ties_layers else None
    equal = (find_equal_parts(graph, wiring) if equal is None else equal).refine(kinds)
    ties_layers = moves.ties_layers and equal == NO_PARTS
    layers = find_repeated_layers(graph, wiring).refine(kinds) if ties_layers else NO_PARTS
    native = build_native_graph(graph, accesses, equal, moves, factors)
    make_searched = cache(partial(tie_equal_parts, native, graph))
    return Problem(graph, accesses, Arrangement(tuple(factors)), equal, native, make_searched, moves, layers, equal)
