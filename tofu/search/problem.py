"""The search problem: one graph, how each of its operators can be split, and the steps in which the workers split all of them.

Operators keep their positions in the semantic graph; an update follows for each variable that has one, as an element-wise operator
that takes the variable's layout and reads the gradient, or the next value, there (decision 7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from tofu import _core
from tofu.analysis import OperatorAccess
from tofu.graph import Graph
from tofu.search.memory_weights import weigh_tensors
from tofu.search.native import build_native_graph
from tofu.search.recurrence import EqualParts, find_equal_parts
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
        The native graph, without the ties of coarsening, which plans that come from outside need not respect.
    make_coarse
        Gives the native graph with these ties, which takes as long as all the rest, and is made once for all arrangements.
    splits_equally
        Whether dimensions and axes are split into equal parts only; what has none is whole.
    shares_regions
        Whether a region that is fetched is shared by all that read it in one phase (csrc/core/cost/sharing.h); else by equal time steps.
    """

    graph: Graph
    accesses: tuple[OperatorAccess, ...]
    arrangement: Arrangement
    equal: EqualParts
    native: _core.Graph
    make_coarse: Callable[[], _core.Graph]
    splits_equally: bool = False
    shares_regions: bool = False

    @property
    def factors(self) -> tuple[int, ...]:
        """The number of parts of each step."""
        return self.arrangement.factors

    @property
    def coarse(self) -> _core.Graph:
        """The native graph with the ties of coarsening (section 5.1): what a search runs on."""
        return self.make_coarse()

    def arrange(self, arrangement: Arrangement) -> Problem:
        """The same graph in other steps, or with other bandwidths."""
        return replace(self, arrangement=arrangement)

    def hold(self, price: float, split: Collection[int] = ()) -> Problem:
        """The same problem for a search that may replicate any tensor at any step, but those in `split`, and pays for what is held.

        `price`: of a byte that one worker holds for the whole training step, in what the search minimises.
        """
        ways = self.splits_equally, self.shares_regions
        coarse = build_native_graph(self.graph, self.accesses, self.equal, True, *ways)
        for tensor, weight in enumerate(weigh_tensors(self.graph)):
            if tensor not in split:
                coarse.hold(tensor, price * weight)
        return replace(self, make_coarse=lambda: coarse)

    def __repr__(self) -> str:
        counts = f"{len(self.graph.operators)} operators and {len(self.graph.tensors)} tensors"
        equal = f", {len(self.equal.operators)} sets of equal operators" if self.equal.operators else ""
        return f"<Problem of {counts}{equal}, in steps of {' x '.join(map(str, self.factors))}>"


def pose_problem(
    graph: Graph,
    accesses: Sequence[OperatorAccess],
    factors: Sequence[int],
    equal: EqualParts | None = None,
    splits_equally: bool = False,
    shares_regions: bool = False,
) -> Problem:
    """The problem of splitting `graph` in steps of so many parts each. The equal time steps are found where none are given."""
    accesses = tuple(accesses)
    kinds = [(access.axes, access.extents) for access in accesses]
    equal = (find_equal_parts(graph) if equal is None else equal).refine(kinds)
    ways = {"splits_equally": splits_equally, "shares_regions": shares_regions}
    build = partial(build_native_graph, graph, accesses, equal, **ways)
    make_coarse = cache(partial(build, is_coarse=True))
    return Problem(graph, accesses, Arrangement(tuple(factors)), equal, build(), make_coarse, **ways)
