"""csrc/core in Python: semantic graphs, their cost, searches, and execution programs.

Tensors and operators are numbered in the order in which they are added. These numbers are their ids. A choice has a
number for each round of the recursion: the axis of an operator, or the dimension of a tensor, that is split in the
round, and -1 if nothing is split. A ValueError names the operator or tensor and the rule that it violates.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Int32Array: TypeAlias = npt.NDArray[np.int32]
Int64Array: TypeAlias = npt.NDArray[np.int64]

Kind: TypeAlias = Literal["operator", "tensor"]
Term: TypeAlias = tuple[int, int]
"""(axis, coefficient)"""
Row: TypeAlias = tuple[Sequence[Term], int, int]
"""(terms, lower, upper): [lower + minima of the terms, upper + maxima of the terms)."""
Input: TypeAlias = (
    tuple[int, Sequence[Row], Sequence[int], float]
    | tuple[int, Sequence[Row], Sequence[int], float, bool]
    | tuple[int, Sequence[Row], Sequence[int], float, bool, bool]
)
"""(tensor, rows, addend_axes, fill[, is_held[, is_read]]). is_held: the operator writes the tensor in place, so each
worker's region must be exactly its shard. is_read: False if the kernel uses only the shape of the tensor, so that
it can be replaced by zeros."""
Output: TypeAlias = tuple[int, Sequence[Row], Sequence[int]]
"""(tensor, rows, combine): `combine` has one of the four constants below for each axis."""

CONCAT: int
"""The region moves with the axis, and parts are disjoint."""
REDUCE: int
"""The region does not depend on the axis, and parts are partial sums."""
REPLICATE: int
"""All parts compute the same."""
OVERLAP_ADD: int
"""The region moves with the axis, and parts overlap and are added."""

class Graph:
    """Tensors and operators. Operators are added in topological order, and checked."""

    def __init__(self) -> None: ...
    def add_tensor(self, shape: Sequence[int], element_bytes: int, replicable: bool, label: int, times: int = 1) -> int:
        """Add a tensor and return its id.

        `replicable` is true if the tensor is small and may stay whole. `label` has 64 bits and is equal for equal tensors.
        `times` says how often the tensor is computed in a training step; `element_bytes` counts all of these.
        """
    def add_operator(
        self,
        axis_extents: Sequence[int],
        inputs: Sequence[Input],
        outputs: Sequence[Output],
        phase: int,
        group: int,
        label: int,
        follows_tensor: int = -1,
        same_choice_as: int = -1,
        fetched_axes: Sequence[int] = (),
        uneven_axes: Sequence[int] = (),
        absent: Sequence[tuple[int, int, Row]] = (),
        always_fetched: bool = False,
        nestings: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Add an operator and return its id.

        Phase 0 is forward, 1 backward, 2 update. Operators of one `group` and phase have equal axis extents, and share fetches
        if they have the same choice. `follows_tensor`: the axes are the dimensions of this tensor, and the choice is its layout
        (weight updates). `same_choice_as`: an earlier operator with the same axis extents. `fetched_axes`: the operator only
        moves cells, and along these axes fetches replace its copies. `uneven_axes`: in a graph that splits equally, axes whose
        parts may overlap. `always_fetched`: fetches always replace its copies, and it
        reads exactly its rows. `absent`: (position among the inputs, then the outputs; dimension; row) for each dimension along
        which cells move but which a tensor lacks. `nestings`: pairs of axes, of which the first can be split only when every
        part of the second has extent 1.
        """
    def add_operator_like(
        self,
        model: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        phase: int,
        group: int,
        label: int,
        same_choice_as: int = -1,
    ) -> int:
        """Add an operator that accesses these tensors as operator `model` accesses its tensors. Return its id."""
    def copy(self) -> Graph:
        """Return an independent copy."""
    def share_choices(self, bound: Sequence[tuple[int, int]]) -> None:
        """Let the first operator of each pair have the choice of the second, an earlier one with the same axis extents."""
    def tie_tensors(self, a: int, b: int) -> None:
        """Give both tensors the same layout. ValueError if the shapes differ or one tensor is replicable."""
    def hold(self, tensor: int, price: float) -> None:
        """Let the search replicate a tensor and those tied to it. It pays `price` for each byte that a worker holds."""
    def repeat(self, operator: int) -> None:
        """Let the search replicate an operator: every worker computes all of it."""
    def split_equally(self) -> None:
        """From now on, split dimensions and axes only into equal parts."""
    def split_unevenly(self, tensor: int) -> None:
        """In a graph that splits equally, let the parts of a tensor overlap along dimensions that have no equal disjoint parts."""
    def share_regions(self) -> None:
        """Let all readers of a tensor in one phase share fetched regions."""
    def stage_small_sums(self) -> None:
        """Reduce partial results of replicable tensors in two stages as well: each worker sums a part, then fetches the others."""
    def relay_in_groups(self) -> None:
        """On an interconnect, count elements that several workers of a group need, and their partial results, as crossing a level once."""
    def mark_output(self, tensor: int) -> None:
        """Mark a tensor as output of the graph. The order of these calls matters to the search."""
    @property
    def num_tensors(self) -> int: ...
    @property
    def num_operators(self) -> int: ...
    def tensor_class(self, tensor: int) -> int:
        """Return the first of the tensors that are tied to this one."""
    def uneven_dimensions(self, tensor: int) -> list[int]:
        """Return the dimensions whose parts may overlap because they cannot be equal and disjoint."""
    def uneven_axes(self, operator: int) -> list[int]:
        """Return such axes of an operator and of those that share its choice."""
    def choice_root(self, operator: int) -> int:
        """Return the first of the operators that share the choice of this one."""

class SearchResult:
    """A plan."""

    @property
    def operators(self) -> Int32Array:
        """[operators, rounds]"""
    @property
    def tensors(self) -> Int32Array:
        """[tensors, rounds]"""
    @property
    def round_bytes(self) -> list[int]:
        """The cost that each round adds; the sum is the cost of the plan."""

class ExactResult:
    """The best plan that was found, with a proven bound."""

    @property
    def plan(self) -> SearchResult: ...
    @property
    def lower_bound(self) -> int:
        """No plan costs fewer bytes. 0 if nothing was proved."""
    @property
    def is_optimal(self) -> bool:
        """True if the plan costs the lower bound."""
    @property
    def recursive_bytes(self) -> int:
        """The cost of the plan of the recursive search; 0 if that found none."""
    @property
    def spent_seconds(self) -> float:
        """The effort, counted in work."""
    @property
    def held_bytes(self) -> int:
        """The most bytes of all tables at one time."""
    @property
    def num_sweeps(self) -> int:
        """Sweeps of message passing; 0 if elimination alone solved the problem."""

class Cost:
    """Bytes that workers read from each other in one training step."""

    @property
    def total_bytes(self) -> int: ...
    @property
    def round_bytes(self) -> list[int]: ...
    @property
    def items(self) -> list[tuple[int, int, int, int, bool]]:
        """(group, tensor, phase, bytes, is_output) of each transfer; the bytes sum to the total."""

def search_recursive(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
    progress: Callable[[int, int], None] | None = None,
    prices: Sequence[float] = ...,
    latencies: Sequence[float] = ...,
) -> SearchResult:
    """Search round by round (section 5.2 of the paper). Each round is optimal given the rounds before.

    Fixed choices have a number for each round: an axis or a dimension, -1 to replicate, which is always accepted, or -2
    for no hint. `progress(rounds_done, bytes)` is called after each round; if it raises an exception, the search stops.
    `prices` has the cost of a byte at each level of the interconnect, `latencies` the cost of a fetch that crosses it.
    With these, costs replace bytes everywhere, rounded for each transfer. Raise ValueError with all hints that cannot be
    met, and RuntimeError if the graph is too densely connected.
    """

def search_greedy(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
) -> SearchResult:
    """Search as Spartan does: the largest tensor first, then the operators around it, each with its cheapest choice so far.

    Fixed choices and errors are those of `search_recursive`.
    """

def search_exact(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
    time_budget_seconds: float = 60.0,
    progress: Callable[[str, int, int], None] | None = None,
    max_table_entries: int = ...,
    max_bytes: float = ...,
    prices: Sequence[float] = ...,
    latencies: Sequence[float] = ...,
    max_fine_rounds: int = 3,
    start: tuple[Int32Array, Int32Array] | None = None,
    refines_start: bool = False,
) -> ExactResult:
    """Search the best of all plans, with a proof or a proven bound. All rounds are chosen together.

    The result is no worse than the plan `start`, the choices of operators and of tensors, if the search may find it. With
    `refines_start`, it only improves this plan, without coarse grids.

    Fixed choices, prices and errors are those of `search_recursive`. `progress(stage, best_bytes, lower_bound)` is called
    regularly, with -1 before the first plan; the search stops if it raises an exception, or after Ctrl-C. Elimination
    makes no tables of more than `max_table_entries` (18 bytes each). If the problem needs more than `max_bytes`, the
    result is the best plan of the recursive search and of coarse grids, with a bound over classes of choices. These are
    searched first for grids with more than `max_fine_rounds` rounds, otherwise only if nothing else proves the plan, and not
    at all if `max_fine_rounds` is 2^31 - 1. Raise RuntimeError if there is no plan.
    """

def evaluate(
    graph: Graph,
    factors: Sequence[int],
    operators: Int32Array,
    tensors: Int32Array,
    prices: Sequence[float] = ...,
    kept: Sequence[int] = ...,
    reread: Sequence[int] = ...,
    latencies: Sequence[float] = ...,
) -> Cost:
    """Return the cost of a feasible plan, which may replicate more than the search would.

    `kept` lists tensors whose fetched regions stay in memory for all readers, `reread` those that every operator fetches
    for itself.
    """

def weigh_keeping(
    graph: Graph, factors: Sequence[int], operators: Int32Array, tensors: Int32Array
) -> list[tuple[int, int]]:
    """Return, for each tensor, the bytes that keeping its fetched regions saves, and the bytes it holds."""

def count_levels(
    graph: Graph,
    factors: Sequence[int],
    operators: Int32Array,
    tensors: Int32Array,
    prices: Sequence[float] = ...,
    kept: Sequence[int] = ...,
    reread: Sequence[int] = ...,
    latencies: Sequence[float] = ...,
) -> tuple[list[int], list[int]]:
    """Return the bytes and the number of fetches that cross each round: the first digit in which reader and owner differ.

    The bytes sum to the total. A fetch by all workers counts once for each level: neighbouring rounds of equal price and latency.
    """

def feasible_choices(graph: Graph, factors: Sequence[int], kind: Kind, id: int, prefix: Sequence[int]) -> list[int]:
    """Return the choices of an "operator" or a "tensor" in round len(prefix)."""

def worker_boxes(graph: Graph, factors: Sequence[int], kind: Kind, id: int, choice: Sequence[int]) -> Int64Array:
    """Return every worker's interval of each axis or dimension: [workers, axes, (begin, end)]."""

def emit(
    graph: Graph,
    factors: Sequence[int],
    operators: Int32Array,
    tensors: Int32Array,
    phases: Sequence[int],
    outputs: Sequence[tuple[int, Sequence[int] | None]],
    kept: Sequence[int] = ...,
    reread: Sequence[int] = ...,
) -> Int64Array:
    """Return the encoded execution program (csrc/core/program/program.h) of the operators of these phases.

    `outputs` lists tensors with layouts, or None for the layout of the plan. A tensor in another layout is fetched in phase 2.
    """

def emit_outlines(
    graph: Graph,
    factors: Sequence[int],
    operators: Int32Array,
    tensors: Int32Array,
    phases: Sequence[int],
    outputs: Sequence[tuple[int, Sequence[int] | None]],
    kept: Sequence[int] = ...,
    reread: Sequence[int] = ...,
) -> tuple[Int64Array, list[Int32Array], Int32Array]:
    """Return the outlines of all workers (csrc/core/program/outline.h), for the arguments of `emit`.

    The result has the kinds of nodes, encoded as a program, the distinct outlines, and the number of each worker's outline.
    """

def count_traffic(graph: Graph, program: Int64Array) -> Int64Array:
    """Return the bytes that worker i reads from worker j, [workers, workers], from the fetches of an encoded program."""

PROGRAM_FORMAT: int
"""The first number of every encoded program."""

def worker_group(worker: int) -> str:
    """Return the group of a worker's nodes in an execution graph."""

def shard_name(whole: str, worker: int) -> str:
    """Return the name of a worker's shard of a tensor, or of its copy of an operator."""

def program_tables(program: Int64Array) -> dict[str, Any]:
    """Return an encoded program as tables of numbers: `workers`, and an array for each column.

    `csrc/core/program/program_tables.h` describes the columns. Shapes and boxes are [rows, dimensions]. Raise ValueError
    if the program cannot be decoded or refers to something that does not exist.
    """
