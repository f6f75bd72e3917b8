"""The native search: semantic graph, cost, recursive search and execution programs (csrc/core).

Ids are positions: tensors and operators are numbered in the order in which they are added. A choice is an axis (of an
operator) or a dimension (of a tensor) for each step, -1 where replicated at that step. Every ValueError names the
operator or tensor and the rule.
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
worker's region must be exactly its shard. is_read: False where the kernel takes the tensor for its shape alone, and
zeros will do."""
Output: TypeAlias = tuple[int, Sequence[Row], Sequence[int]]
"""(tensor, rows, combine), one of the four constants below for each axis."""

CONCAT: int
"""The axis moves the region; parts are disjoint."""
REDUCE: int
"""The region does not depend on the axis; parts are partial sums."""
REPLICATE: int
"""Every part computes the same."""
OVERLAP_ADD: int
"""The axis moves the region, parts overlap and are added."""

class Graph:
    """Tensors and operators, checked as they are added. Operators come in topological order."""

    def __init__(self) -> None: ...
    def add_tensor(self, shape: Sequence[int], element_bytes: int, replicable: bool, label: int, times: int = 1) -> int:
        """A tensor's id. `replicable`: tiny, may stay whole; `label`: 64 bits, equal for equal tensors; `times`: that it is made in a
        training step, all of which count in `element_bytes`.
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
    ) -> int:
        """An operator's id.

        phase 0 is forward, 1 backward, 2 update. The operators of one `group` and phase share their fetches where they take
        the same choice; their axis extents must be equal. `follows_tensor`: the axes are that tensor's dimensions and the
        choice is its layout (weight updates). `same_choice_as`: an earlier operator of the same axis extents. `fetched_axes`: those
        along which fetches take the place of the operator's copies, which only move cells. `uneven_axes`: in a graph that splits equally,
        those whose parts may overlap. `absent`: (its place among the inputs, then the outputs; dimension; row) of each tensor that lacks
        a dimension of those which its cells move to or from.
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
        """An operator's id. It accesses these tensors as operator `model` does its own."""
    def copy(self) -> Graph:
        """The same graph, to go on with apart."""
    def share_choices(self, bound: Sequence[tuple[int, int]]) -> None:
        """Each first operator takes the choice of the second, an earlier one of the same axis extents."""
    def tie_tensors(self, a: int, b: int) -> None:
        """Both always have the same layout. ValueError for unequal shapes, or where one is replicable."""
    def hold(self, tensor: int, price: float) -> None:
        """The search may replicate a tensor, and pays `price` for each byte that a worker holds; tied tensors alike."""
    def repeat(self, operator: int) -> None:
        """The search may have every worker compute all of an operator."""
    def split_equally(self) -> None:
        """From now on a dimension or an axis is split into equal parts only."""
    def split_unevenly(self, tensor: int) -> None:
        """In such a graph: where the dimensions of a tensor have no equal parts they may have some that overlap."""
    def share_regions(self) -> None:
        """A fetched region is a value that all readers of the tensor in one phase share."""
    def stage_small_sums(self) -> None:
        """Partial results of replicable tensors are reduced in two stages as well: each worker sums a part, then gathers the others."""
    def mark_output(self, tensor: int) -> None:
        """The tensor is read from outside. Mark outputs in the graph's own order: it is part of the structure."""
    @property
    def num_tensors(self) -> int: ...
    @property
    def num_operators(self) -> int: ...
    def tensor_class(self, tensor: int) -> int:
        """The first of the tensors that are tied to this one."""
    def uneven_dimensions(self, tensor: int) -> list[int]:
        """In a graph that splits equally: the dimensions whose parts may overlap, where they cannot be equal and disjoint."""
    def uneven_axes(self, operator: int) -> list[int]:
        """The same of an operator's axes, and of all that share its choice."""
    def choice_root(self, operator: int) -> int:
        """The first of the operators that share this one's choice."""

class SearchResult:
    """A plan and how it was found."""

    @property
    def operators(self) -> Int32Array:
        """[operators, steps]"""
    @property
    def tensors(self) -> Int32Array:
        """[tensors, steps]"""
    @property
    def step_bytes(self) -> list[int]:
        """Increments of the geometry of the first i levels; they sum to the plan's cost."""

class ExactResult:
    """The best plan found, and what is proved of it."""

    @property
    def plan(self) -> SearchResult: ...
    @property
    def lower_bound(self) -> int:
        """Bytes: no plan costs less. 0 where nothing could be proved."""
    @property
    def is_optimal(self) -> bool:
        """Whether the plan costs the bound."""
    @property
    def recursive_bytes(self) -> int:
        """What the recursive search comes to; 0 where it found no plan."""
    @property
    def held_bytes(self) -> int:
        """Bytes of all tables that were held at the same time, at most."""
    @property
    def num_sweeps(self) -> int:
        """Sweeps of message passing; 0 where elimination solved the problem at once."""

class Cost:
    """Bytes that workers read from each other's memory in one training step."""

    @property
    def total_bytes(self) -> int: ...
    @property
    def step_bytes(self) -> list[int]: ...
    @property
    def items(self) -> list[tuple[int, int, int, int, bool]]:
        """(group, tensor, phase, bytes, is_output) of everything that costs something; the bytes sum to the total."""

def search_recursive(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
    progress: Callable[[int, int], None] | None = None,
    prices: Sequence[float] = ...,
    latencies: Sequence[float] = ...,
) -> SearchResult:
    """The recursive search (section 5.2): step by step, each step exactly optimal given the steps before.

    Fixed choices have one value per step, -2 where it is free; -1 is always accepted. `progress(steps_done, bytes)` is
    called after each step and may raise to stop. `prices`: the cost of a byte at each level of the interconnect, and `latencies` that
    of a fetch that crosses it; with them, all that is called bytes is cost, rounded for each incidence. ValueError lists hints that
    cannot be met; RuntimeError where the graph is too densely connected.
    """

def search_greedy(
    graph: Graph,
    factors: Sequence[int],
    fixed_operators: Mapping[int, Sequence[int]] = ...,
    fixed_tensors: Mapping[int, Sequence[int]] = ...,
) -> SearchResult:
    """Spartan's heuristic: the largest tensor first, then the operators around it, each as is cheapest so far.

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
) -> ExactResult:
    """The best plan of all, every step chosen at once, with a proof or the proven bound.

    Fixed choices, prices and errors are those of `search_recursive`. `progress(stage, best_bytes, lower_bound)` is called now
    and then, with -1 for no plan yet, and may raise to stop; Ctrl-C is looked for then as well. Elimination tables of
    more than `max_table_entries` (18 bytes each) are not made. A problem of more than `max_bytes` is not built: the result is the
    recursion's plan then, and nothing is proved. RuntimeError if that has none either.
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
    """The cost of any feasible plan, also of one that replicates where the search would not.

    `kept`: tensors of which a fetched region stays for all of their readers; `reread`: those of which every operator fetches for itself.
    """

def weigh_keeping(
    graph: Graph, factors: Sequence[int], operators: Int32Array, tensors: Int32Array
) -> list[tuple[int, int]]:
    """For each tensor, bytes that are saved and held where its fetched regions are kept."""

def count_levels(
    graph: Graph,
    factors: Sequence[int],
    operators: Int32Array,
    tensors: Int32Array,
    kept: Sequence[int] = ...,
    reread: Sequence[int] = ...,
) -> tuple[list[int], list[int]]:
    """Bytes that cross each level of the interconnect, the first digit in which reader and owner differ, which sum to the total; and how
    many fetches do, all workers at once.
    """

def feasible_choices(graph: Graph, factors: Sequence[int], kind: Kind, id: int, prefix: Sequence[int]) -> list[int]:
    """What an "operator" or a "tensor" can take at step len(prefix)."""

def worker_boxes(graph: Graph, factors: Sequence[int], kind: Kind, id: int, choice: Sequence[int]) -> Int64Array:
    """[workers, axes, (begin, end)]: every worker's interval of each axis (of a "tensor": of each dimension)."""

def shards(graph: Graph, factors: Sequence[int], tensor: int, layout: Sequence[int]) -> Int64Array:
    """[workers, dimensions, (begin, end)]"""

def scattered_shards(graph: Graph, factors: Sequence[int], tensor: int, layout: Sequence[int]) -> Int64Array:
    """The same, each shard cut among the workers that have copies of it. A part may be empty."""

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
    """The encoded execution program (csrc/core/program/program.h) of the operators of these phases.

    `outputs`: (tensor, layout), None for the tensor's own layout; in another layout it is fetched, in phase 2.
    """

def count_traffic(graph: Graph, program: Int64Array) -> Int64Array:
    """[workers, workers]: bytes that worker i reads from worker j, counted from an encoded program's fetches alone."""

PROGRAM_FORMAT: int
"""The first number of every encoded program."""

def worker_group(worker: int) -> str:
    """The group of a worker's nodes in an execution graph."""

def shard_name(whole: str, worker: int) -> str:
    """What a worker has of a tensor or an operator: its shard, its copy."""

def program_tables(program: Int64Array) -> dict[str, Any]:
    """An encoded program as tables of numbers, see `csrc/core/program/program_tables.h`: `workers`, and the arrays of the columns.

    Shapes and boxes are [rows, dimensions]. ValueError where the program cannot be decoded, or names what there is not.
    """
