"""Checks that a program is correct, and an independent count of the bytes that it transfers.

To stay independent, this module imports neither the search nor the analysis.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from tofu.errors import InternalError
from tofu.formatting import list_some
from tofu.graph import Graph, Phase
from tofu.program.program import Program
from tofu.program.tables import Column, NodeKind, ProgramTables


def is_checked() -> bool:
    """Return True if programs and execution graphs are checked before they run. TOFU_CHECK=0 switches the checks off."""
    return os.environ.get("TOFU_CHECK", "1") not in ("", "0")


def check_program(program: Program, communication_bytes: int | None = None) -> None:
    """Raise InternalError if a program breaks a rule, or does not transfer `communication_bytes`.

    A *fetch* is a node that copies regions (*pieces*) of other arrays into a new array. The main rules:

    - A node comes after the nodes that it reads. Only fetches read from other workers.
    - Elements keep their indices in the tensor.
    - The pieces of a fetch neither overlap nor leave gaps.
    """
    try:
        problems = find_problems(program)
    except ValueError as error:
        raise InternalError(f"The program cannot be read: {error}") from error
    if problems:
        shown = "\n".join(f"  - {problem}" for problem in problems)
        raise InternalError(f"The program breaks {len(problems)} rules:\n{shown}")
    if communication_bytes is not None and program.remote_bytes != communication_bytes:
        raise InternalError(
            f"The program reads {program.remote_bytes} bytes from other workers, its plan counts {communication_bytes}."
        )


def find_problems(program: Program) -> list[str]:
    """Return a sentence for each broken rule."""
    for rules in ((NUMBERS,), (EDGES,), RULES):
        nodes_by_problem = {problem: find_nodes(program.tables, program.graph) for problem, find_nodes in rules}
        problems = [
            _describe_nodes(problem, np.unique(nodes)) for problem, nodes in nodes_by_problem.items() if nodes.size
        ]
        if problems:
            return problems
    return list(_check_results(program))


def _describe_nodes(problem: str, nodes: Column) -> str:
    return f"{problem}: node {list_some(list(map(str, nodes.tolist())))}"


def _find_wrong_numbers(tables: ProgramTables, graph: Graph) -> Column:
    id_counts = np.where(tables.node_kind == NodeKind.OPERATOR, len(graph.operators), len(graph.tensors))
    has_worker = (tables.node_worker >= 0) & (tables.node_worker < tables.workers)
    has_phase = (tables.node_phase >= 0) & (tables.node_phase < len(Phase))
    return _where(~(has_worker & has_phase & (tables.node_id >= 0) & (tables.node_id < id_counts)))


def _find_other_operators(tables: ProgramTables, graph: Graph) -> Column:
    copy_nodes = _where(tables.node_kind == NodeKind.OPERATOR)
    count = len(tables.node_kind)
    actual = (
        np.bincount(tables.read_node, minlength=count)[copy_nodes],
        np.bincount(tables.entry_node, minlength=count)[copy_nodes],
        tables.node_phase[copy_nodes],
    )
    declared = _column((len(o.inputs), len(o.outputs), int(o.phase)) for o in graph.operators).reshape(-1, 3)
    return _pick(copy_nodes, (np.stack(actual, axis=1) != declared[tables.node_id[copy_nodes]]).any(axis=1))


def _find_wrong_copies(tables: ProgramTables, graph: Graph) -> Column:
    copy_keys = (tables.node_id * len(NodeKind) + tables.node_kind) * tables.workers + tables.node_worker
    unrepeated_nodes = _where(tables.node_kind != NodeKind.FETCH)
    _, key_numbers, key_counts = np.unique(copy_keys[unrepeated_nodes], return_inverse=True, return_counts=True)
    copy_nodes = _where(tables.node_kind == NodeKind.OPERATOR)
    worker_counts = np.bincount(tables.node_id[copy_nodes], minlength=len(graph.operators))
    return np.concatenate(
        (
            unrepeated_nodes[key_counts[key_numbers] > 1],
            copy_nodes[worker_counts[tables.node_id[copy_nodes]] != tables.workers],
        )
    )


def _find_produced_variables(tables: ProgramTables, graph: Graph) -> Column:
    produced = _column(chain.from_iterable(operator.outputs for operator in graph.operators))
    return _where((tables.node_kind == NodeKind.VARIABLE) & np.isin(tables.node_id, produced))


def _find_other_ranks(tables: ProgramTables, graph: Graph) -> Column:
    ranks = _column(len(tensor.shape) for tensor in graph.tensors)
    return _pick(tables.entry_node, tables.entry_rank != ranks[_find_tensors(tables, graph)])


def _find_early_reads(tables: ProgramTables, graph: Graph) -> Column:
    return _pick(tables.read_node, tables.entry_node[tables.read_entry] >= tables.read_node)


def _find_remote_inputs(tables: ProgramTables, graph: Graph) -> Column:
    reader, writer = tables.read_node, tables.entry_node[tables.read_entry]
    is_remote = tables.node_worker[reader] != tables.node_worker[writer]
    return _pick(reader, is_remote & (tables.node_kind[reader] != NodeKind.FETCH))


def _find_pieces_outside(tables: ProgramTables, graph: Graph) -> Column:
    first_entry = tables.entry_node.searchsorted(tables.piece_node)
    end = tables.piece_begin + tables.piece_extent
    is_inside = (tables.piece_begin >= 0) & (tables.piece_extent > 0) & (end <= tables.entry_shape[first_entry])
    return _pick(tables.piece_node, ~is_inside.all(axis=1))


def _find_sources_outside(tables: ProgramTables, graph: Graph) -> Column:
    extent = np.take_along_axis(tables.piece_extent[tables.source_piece], np.maximum(tables.source_along, 0), axis=1)
    end = tables.source_begin + np.where(tables.source_along < 0, 1, extent)
    is_inside = (tables.source_begin >= 0) & (end <= tables.entry_shape[tables.source_entry])
    return _pick(tables.source_node, ~is_inside.all(axis=1))


def _find_shifted_sources(tables: ProgramTables, graph: Graph) -> Column:
    first_entry = tables.entry_node.searchsorted(tables.source_node)
    source_position = tables.entry_begin[tables.source_entry] + tables.source_begin
    piece_position = tables.entry_begin[first_entry] + tables.piece_begin[tables.source_piece]
    reads_same_tensor = _find_tensors(tables, graph)[tables.source_entry] == tables.node_id[tables.source_node]
    return _pick(tables.source_node, reads_same_tensor & (source_position != piece_position).any(axis=1))


def _find_holes(tables: ProgramTables, graph: Graph) -> Column:
    # The fetches that leave forbidden gaps in their new array. Gaps (zeros) are allowed in sums, and in results such as
    # the gradient of a slice.
    node_count = len(tables.node_kind)
    first_entry = tables.entry_node.searchsorted(np.arange(node_count))
    begin = tables.entry_begin[first_entry]
    end = begin + tables.entry_shape[first_entry]
    rank = begin.shape[1]  # no tensor of the program has more dimensions
    shapes = np.array([(*tensor.shape, *(1,) * rank)[:rank] for tensor in graph.tensors], np.int64)
    extents_inside = np.minimum(end, shapes[tables.node_id % len(shapes)]) - np.maximum(begin, 0)
    elements_inside = np.maximum(extents_inside, 0).prod(axis=1)
    written_elements = np.bincount(tables.piece_node, tables.piece_extent.prod(axis=1), node_count)
    is_in_transit = np.isin(tables.source_entry, tables.transit_entry)
    is_other_tensor = _find_tensors(tables, graph)[tables.source_entry] != tables.node_id[tables.source_node]
    may_have_gaps = np.bincount(tables.source_node[is_other_tensor | is_in_transit], minlength=node_count) > 0
    has_pieces = np.bincount(tables.piece_node, minlength=node_count) > 0
    return _where(has_pieces & ~may_have_gaps & (written_elements != elements_inside))


def _find_pieces_without_sources(tables: ProgramTables, graph: Graph) -> Column:
    return _pick(tables.piece_node, np.bincount(tables.source_piece, minlength=len(tables.piece_node)) == 0)


def _find_overlaps(tables: ProgramTables, graph: Graph) -> Column:
    end = tables.piece_begin + tables.piece_extent
    nodes_by_pieces: dict[tuple[bytes, bytes], list[int]] = {}
    for node in np.unique(tables.piece_node).tolist():
        rows = slice(tables.first_piece[node], tables.first_piece[node + 1])
        key = tables.piece_begin[rows].tobytes(), end[rows].tobytes()
        nodes_by_pieces.setdefault(key, []).append(node)
    overlapping_nodes: list[int] = []
    for nodes in nodes_by_pieces.values():
        first_row, last_row = tables.first_piece[nodes[0]], tables.first_piece[nodes[0] + 1]
        for row in range(first_row, last_row):
            following = slice(row + 1, last_row)
            is_common = (tables.piece_begin[row] < end[following]) & (tables.piece_begin[following] < end[row])
            if is_common.all(axis=1).any():
                overlapping_nodes += nodes
                break
    return _column(overlapping_nodes)


def _find_other_item_sizes(tables: ProgramTables, graph: Graph) -> Column:
    item_bytes = _column(tensor.item_bytes for tensor in graph.tensors)
    source_bytes = item_bytes[_find_tensors(tables, graph)[tables.source_entry]]
    return _pick(tables.source_node, source_bytes != item_bytes[tables.node_id[tables.source_node]])


Rule = tuple[str, Callable[[ProgramTables, Graph], Column]]
NUMBERS: Rule = ("a worker, a phase, a tensor or an operator that does not exist", _find_wrong_numbers)
EDGES: Rule = ("other inputs, outputs or another phase than its operator", _find_other_operators)
RULES: tuple[Rule, ...] = (
    ("twice on one worker, or not on every one", _find_wrong_copies),
    ("a variable that an operator writes", _find_produced_variables),
    ("other dimensions than its tensor", _find_other_ranks),
    ("reads what is written later", _find_early_reads),
    ("reads another worker's memory without a fetch", _find_remote_inputs),
    ("a piece outside its region", _find_pieces_outside),
    ("a piece outside its source", _find_sources_outside),
    ("a piece without a source", _find_pieces_without_sources),
    ("two pieces that write one element", _find_overlaps),
    ("elements from another place of the tensor", _find_shifted_sources),
    ("elements that no piece writes", _find_holes),
    ("elements of another size than its source", _find_other_item_sizes),
)


def _check_results(program: Program) -> Iterator[str]:
    tables, tensors = program.tables, [output.tensor for output in program.outputs]
    entries = tables.output_entry[: len(tensors) * program.workers]
    if len(entries) < len(tensors) * program.workers:
        yield f"{len(entries)} entries for {len(tensors)} results on {program.workers} workers"
        return
    is_expected = _find_tensors(tables, program.graph)[entries] == np.repeat(tensors, program.workers)
    is_expected &= tables.node_worker[tables.entry_node[entries]] == np.tile(np.arange(program.workers), len(tensors))
    for result in np.unique(_where(~is_expected) // max(program.workers, 1)).tolist():
        yield f"result {program.graph.tensors[tensors[result]].name} has no shard on some worker"


def _find_tensors(tables: ProgramTables, graph: Graph) -> Column:
    return tables.find_entry_tensors([operator.outputs for operator in graph.operators])


def _column(values: Iterable[object]) -> Column:
    return np.array(list(values), np.int64)


def _pick(rows: Column, is_picked: npt.NDArray[np.bool_]) -> Column:
    return np.asarray(rows[is_picked])


def _where(is_picked: npt.NDArray[np.bool_]) -> Column:
    return np.flatnonzero(is_picked)
