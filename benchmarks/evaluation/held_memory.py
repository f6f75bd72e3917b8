"""What devices hold at most in a step, by rules of a memory planner that are weaker than those of the frameworks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum

import numpy as np

from benchmarks.evaluation.programs import STATES
from tofu.graph import Phase
from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.work import Column

SUMS = ("_grad_add", "add_n")  # by which the gradients of several uses are added up


class Freed(Enum):
    """When memory of what is computed is free for something else."""

    AFTER_LAST_USE = "after its last use, and nothing is written over what it is computed from"
    FETCHED_APART = "after its last use, for what is fetched or for what is computed, not for both"
    FETCHED_AFTER_PHASE = "after its last use, and fetched regions at the end of the forward or backward pass"
    FETCHED_AT_END = "after its last use, and fetched regions at the end of the step"
    AT_END = "at the end of the step"


class Added(Enum):
    """How the gradients of several uses are added up."""

    IN_PLACE = "each to the sum of those before, where that is"
    APART = "each to the sum of those before, into new memory"
    TOGETHER = "all at once, when the last one is there"


def measure_held(
    program: PlannedProgram, placed: Sequence[int], freed: Freed = Freed.AFTER_LAST_USE, added: Added = Added.APART
) -> list[int]:
    """The bytes that each device holds at most: variables, gradients, states, and what is computed while it is held.

    `placed`: the device of each node of the program.
    """
    tables, graph = program.tables, program.graph
    weights = set(graph.updated)
    gradients = {graph.gradients[t] for t in weights}
    last = _find_last(program, freed, added)
    entry_node, kinds = tables.entry_node.tolist(), tables.node_kind
    rows = zip(entry_node, program.entry_bytes.tolist(), program.entry_tensor.tolist(), strict=True)
    held = [0] * (1 + max(placed))
    pools: list[list[dict[int, int]]] = [[defaultdict(int) for _ in held] for _ in range(2)]
    sums = _find_sums(program) if added is not Added.APART else set()
    for entry, (node, size, tensor) in enumerate(rows):
        device = placed[node]
        if kinds[node] == NodeKind.VARIABLE:
            held[device] += size * (1 + STATES if tensor in weights else 1)
        elif tensor in gradients and kinds[node] == NodeKind.OPERATOR:
            held[device] += size
        elif node not in sums:
            pool = pools[int(freed is Freed.FETCHED_APART and kinds[node] == NodeKind.FETCH)][device]
            pool[node] += size
            pool[int(last[entry]) + 1] -= size
    peaks = [[max(np.cumsum([one[node] for node in sorted(one)]).tolist(), default=0) for one in own] for own in pools]
    return [sum(own) for own in zip(held, *peaks, strict=True)]


def _find_sums(program: PlannedProgram) -> set[int]:
    """The nodes that add a gradient to others."""
    tables, operators = program.tables, program.graph.operators
    of_operators = np.flatnonzero(tables.node_kind == NodeKind.OPERATOR).tolist()
    return {node for node in of_operators if operators[int(tables.node_id[node])].op in SUMS}


def _find_last(program: PlannedProgram, freed: Freed, added: Added) -> Column:
    """The node after which each entry is not needed."""
    tables = program.tables
    end = len(tables.node_kind) - 1
    last = tables.entry_node.copy()
    if freed is Freed.AT_END:
        last[:] = end
    ready = np.arange(end + 1)  # when what a node reads has been read
    if added is Added.TOGETHER:
        reader = dict(zip(tables.entry_node[tables.read_entry].tolist(), tables.read_node.tolist(), strict=True))
        sums = _find_sums(program)
        for node in sorted(sums, reverse=True):
            if reader.get(node) in sums:
                ready[node] = ready[reader[node]]
    np.maximum.at(last, tables.read_entry, ready[tables.read_node])
    is_fetched = tables.node_kind[tables.entry_node] == NodeKind.FETCH
    if freed is Freed.FETCHED_AFTER_PHASE:
        middle = _find_last_forward(program)
        last[is_fetched] = np.where(last[is_fetched] <= middle, middle, end)
    elif freed is Freed.FETCHED_AT_END:
        last[is_fetched] = end
    return np.asarray(last, np.int64)


def _find_last_forward(program: PlannedProgram) -> int:
    """The last node of the forward pass."""
    tables, operators = program.tables, program.graph.operators
    of_operators = np.flatnonzero(tables.node_kind == NodeKind.OPERATOR).tolist()
    return max(int(node) for node in of_operators if operators[int(tables.node_id[node])].phase == Phase.FORWARD)
