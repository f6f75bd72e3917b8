"""Python interface of csrc/core: graphs, the cost of plans, searches, and programs.

Tensors and operators are numbered in the order in which they are added. These numbers are their ids. A choice has a
number for each round: the axis of an operator, or the dimension of a tensor, that the round splits. -1 means that
nothing is split. If a call breaks a rule, a ValueError names the operator or tensor and the rule.
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
"""(terms, lower, upper), as in `tofu.analysis.access.Row`."""
Input: TypeAlias = (
    tuple[int, Sequence[Row], Sequence[int], float]
    | tuple[int, Sequence[Row], Sequence[int], float, bool]
    | tuple[int, Sequence[Row], Sequence[int], float, bool, bool]
)
"""(tensor, rows, addend_axes, fill[, is_held[, is_read]]). If is_held is True, the operator writes the tensor in place,
and each worker's region must be its shard. If is_read is False, the kernel uses only the tensor's shape, and may
receive zeros."""
Output: TypeAlias = tuple[int, Sequence[Row], Sequence[int]]
"""(tensor, rows, combine): `combine` has one of the four constants below for each axis."""

CONCAT: int
"""The parts are disjoint regions."""
REDUCE: int
"""The parts are partial sums."""
REPLICATE: int
"""The parts are equal."""
OVERLAP_ADD: int
"""The parts overlap, and are summed."""

class Graph:
    """A graph of tensors and operators. Operators are added in topological order, and checked."""

    def __init__(self) -> None: ...
    def add_tensor(self, shape: Sequence[int], element_bytes: int, replicable: bool, label: int, times: int = 1) -> int:
        """Add a tensor and return its id.

        `replicable` is True if every worker may store the whole tensor. Equal tensors have the same 64-bit number as
        `label`. If a training step computes the tensor 10 `times`, `element_bytes` is 10 times the size of an element.
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

        - `phase`: 0 is forward, 1 backward, 2 update.
        - `group`: operators of one group and phase have equal axis extents. If their splits are equal, they share fetches.
        - `follows_tensor`: for the update of a weight, the weight. The axes are its dimensions, and are split alike.
        - `same_choice_as`: an earlier operator with the same axis extents. The search gives both the same split.
        - `fetched_axes`: axes along which the operator only moves elements. If one is split, a fetch replaces the operator.
        - `uneven_axes`: in a graph that splits equally, axes whose parts may overlap.
        - `absent`: (tensor, dimension, row) for each dimension that a tensor lacks, as in a stack. The tensor is a position
          among the inputs, then the outputs.
        - `always_fetched`: True if fetches always replace the operator.
        - `nestings`: pairs of axes. The first can be split only after the second is split into single positions.
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
        """Add a copy of the operator `model` with other inputs and outputs. Return its id."""
    def copy(self) -> Graph:
        """Return an independent copy."""
    def share_choices(self, bound: Sequence[tuple[int, int]]) -> None:
        """Give both operators of each pair in `bound` the same split. A pair is (later operator, earlier operator)."""
    def tie_tensors(self, a: int, b: int) -> None:
        """Give both tensors the same split. Raise ValueError if their shapes differ, or only one is replicable."""
    def hold(self, tensor: int, price: float) -> None:
        """Let the search replicate a tensor. Each stored byte costs `price`. Tied tensors have equal prices."""
    def repeat(self, operator: int) -> None:
        """Let the search replicate an operator, so that every worker computes all of it."""
    def split_equally(self) -> None:
        """Split dimensions and axes only into equal parts from now on."""
    def split_unevenly(self, tensor: int) -> None:
        """Let parts of a tensor overlap along dimensions that cannot be divided equally."""
    def share_regions(self) -> None:
        """Let all readers of a tensor in one phase share fetched regions."""
    def stage_small_sums(self) -> None:
        """Reduce small tensors in two stages, too: each worker sums one part, then fetches the other parts."""
    def relay_in_groups(self) -> None:
        """Let the workers of a group relay elements, so that each element crosses a level of the interconnect only once."""
    def mark_output(self, tensor: int) -> None:
        """Make a tensor the next output of the graph."""
    def tensor_class(self, tensor: int) -> int:
        """Return the first tensor that must be split like `tensor`. This may be `tensor` itself."""
    def uneven_dimensions(self, tensor: int) -> list[int]:
        """Return the dimensions whose parts may overlap."""
    def uneven_axes(self, operator: int) -> list[int]:
        """Return the axes whose parts may overlap in this operator, and in all operators that must be split like it."""
    def choice_root(self, operator: int) -> int:
        """Return the first operator that must be split like `operator`. This may be `operator` itself."""

class SearchResult:
    """The plan that a search found."""

    @property
    def operators(self) -> Int32Array:
        """An array [operators, rounds]: the axis along which a round splits an operator, or -1."""
    @property
    def tensors(self) -> Int32Array:
        """An array [tensors, rounds]: the dimension along which a round splits a tensor, or -1."""
    @property
    def round_bytes(self) -> list[int]:
        """The cost that each round adds. The sum is the cost of the plan."""

class ExactResult:
    """The best plan that the exact search found, and a lower bound of the cost."""

    @property
    def plan(self) -> SearchResult: ...
    @property
    def lower_bound(self) -> int:
        """The cost in bytes of every plan is at least this number. It is 0 if nothing is proved."""
    @property
    def is_optimal(self) -> bool:
        """True if the plan's cost equals the lower bound."""
    @property
    def recursive_bytes(self) -> int:
        """The cost of the recursive search's plan, or 0 if that search found none."""
    @property
    def spent_seconds(self) -> float:
        """The effort in seconds, computed from the number of operations."""
    @property
    def held_bytes(self) -> int:
        """The peak size of the search's tables in bytes."""
    @property
    def num_sweeps(self) -> int:
        """The number of sweeps of message passing, or 0 if elimination alone solved the problem."""

class Cost:
    """Bytes that workers read from each other in one training step."""

    @property
    def total_bytes(self) -> int: ...
    @property
    def round_bytes(self) -> list[int]: ...
    @property
    def items(self) -> list[tuple[int, int, int, int, bool]]:
        """A tuple (group, tensor, phase, bytes, is_output) for each transfer. The bytes add up to the total.

        `phase` is 0 for forward, 1 for backward and 2 for update.
        """

def search_recursive(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
    progress: Callable[[int, int], None] | None = None,
    prices: Sequence[float] = ...,
    latencies: Sequence[float] = ...,
) -> SearchResult:
    """Find the best split of each round in turn, without changing earlier rounds (section 5.2).

    Fixed choices have a number for each round: an axis or a dimension, -1 to replicate (always allowed), or -2 for a
    free choice. `progress(rounds_done, bytes)` is called after each round. If it raises an exception, the search stops.
    `prices` has the cost of a byte that crosses each round, and `latencies` the cost of a fetch. If they are passed,
    these costs replace bytes everywhere. Raise ValueError with all fixed choices that are impossible, and RuntimeError
    if the graph is too densely connected.
    """

def search_greedy(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
) -> SearchResult:
    """Find the best split of the largest tensor first, then of the operators around it, as Spartan does.

    Fixed choices and errors are as in `search_recursive`.
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
    known_bytes: int = ...,
) -> ExactResult:
    """Find the best plan for all rounds together, and a lower bound of the cost.

    `start` has the choices of operators and tensors in a known plan. The result is no worse than `start` if the search
    could choose `start`. With `refines_start`, the search only improves this plan. The search ends when no plan costs
    less than `known_bytes`.

    Fixed choices, prices and errors are those of `search_recursive`. `progress(stage, best_bytes, lower_bound)` is
    called regularly, with -1 before the first plan. The search stops if `progress` raises an exception, or after
    Ctrl-C. No table has more than `max_table_entries` (18 bytes each). If the problem needs more than `max_bytes`, the
    search uses only coarse grids and classes of choices (csrc/core/search/exact.h). It begins with them if there are
    more than `max_fine_rounds` rounds. It never uses them if `max_fine_rounds` is 2^31 - 1. Raise RuntimeError if there
    is no plan.
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
    """Return the cost of a plan.

    `kept` lists tensors that a worker fetches only once, and keeps for all readers. `reread` lists tensors that every
    operator fetches again.
    """

def weigh_keeping(
    graph: Graph, factors: Sequence[int], operators: Int32Array, tensors: Int32Array
) -> list[tuple[int, int]]:
    """Return two numbers for each tensor: bytes saved if workers keep its fetched regions, and bytes of these regions."""

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
    """Return the bytes, and the number of fetches (copies from other workers), that belong to each round.

    A transfer belongs to the round that puts its two workers into different groups. Neighbouring rounds of equal price
    and latency are one *level*. A fetch by all workers counts once per level.
    """

def feasible_choices(graph: Graph, factors: Sequence[int], kind: Kind, id: int, prefix: Sequence[int]) -> list[int]:
    """Return the possible choices of an "operator" or a "tensor" in round `len(prefix)`. `prefix` has the earlier choices."""

def worker_boxes(graph: Graph, factors: Sequence[int], kind: Kind, id: int, choice: Sequence[int]) -> Int64Array:
    """Return every worker's part of an operator or a tensor, as an array [workers, axes, (begin, end)]."""

def emit(
    graph: Graph,
    factors: Sequence[int],
    operators: Int32Array,
    tensors: Int32Array,
    phases: Sequence[int],
    outputs: Sequence[tuple[int, Sequence[int] | None]],
    kept: Sequence[int] = ...,
    reread: Sequence[int] = ...,
    readers: Sequence[int] = ...,
) -> Int64Array:
    """Return the program that all workers run, encoded as integers (csrc/core/program/program.h).

    It has only the operators of these `phases`: 0 is forward, 1 backward, 2 update. `outputs` lists tensors to return.
    Each has the layout in which it is returned. None stands for its layout in `tensors`. If `readers` lists workers, only
    their transfers are described.
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
    """Return short forms of all workers' programs, the outlines (csrc/core/program/outline.h).

    The arguments are those of `emit`. The result is a tuple: all different nodes, the different outlines, and the
    position of each worker's outline among these.
    """

PROGRAM_FORMAT: int
"""The first number of every encoded program."""

def worker_group(worker: int) -> str:
    """Return the group of a worker's nodes in an execution graph."""

def shard_name(whole: str, worker: int) -> str:
    """Return the name of a worker's copy of an operator, or of its shard of a tensor."""

def program_tables(program: Int64Array) -> dict[str, Any]:
    """Decode a program into tables. Raise ValueError if it cannot be decoded.

    The result has the number of `workers`, and an array for each column (`csrc/core/program/program_tables.h`). Columns
    of shapes and positions have a row for each item, with a number for each dimension.
    """
