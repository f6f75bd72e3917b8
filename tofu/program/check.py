"""Checks that a program is correct, whoever wrote it, and an independent count of the bytes that it transfers.

To stay independent, this module imports neither the search nor the analysis. It reads the graph, and the program as
tables of numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from tofu.errors import InternalError
from tofu.graph import Graph, Phase
from tofu.program.nodes import NodeKind
from tofu.program.program import Program
from tofu.program.tables import Column, ProgramTables

SHOWN_NODES = 5


def is_checked() -> bool:
    """Return True if programs and execution graphs are checked before they run. TOFU_CHECK=0 switches the checks off."""
    return os.environ.get("TOFU_CHECK", "1") not in ("", "0")


def check_program(program: Program, communication_bytes: int | None = None) -> None:
    """Raise InternalError if a program breaks a rule, or transfers a different number of bytes than its plan counts.

    A fetch writes its region in *pieces*, each from a source. Each piece is inside its region and inside its source, at
    the same place of the tensor. Pieces neither overlap nor leave gaps. Only fetches read from other workers. Nodes come
    after their inputs.
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
    """Return a sentence for each broken rule. Numbers and edges are checked first, because the other rules rely on them."""
    for rules in ((NUMBERS,), (EDGES,), RULES):
        found = [(problem, find(program.tables, program.graph)) for problem, find in rules]
        problems = [_name(problem, np.unique(nodes)) for problem, nodes in found if nodes.size]
        if problems:
            return problems
    return list(_check_results(program))


def _name(problem: str, nodes: Column) -> str:
    more = "" if len(nodes) <= SHOWN_NODES else f" and {len(nodes) - SHOWN_NODES} more"
    return f"{problem}: node {', '.join(map(str, nodes[:SHOWN_NODES].tolist()))}{more}"


def _find_wrong_numbers(tables: ProgramTables, graph: Graph) -> Column:
    known = np.where(tables.node_kind == NodeKind.OPERATOR, len(graph.operators), len(graph.tensors))
    is_worker = (tables.node_worker >= 0) & (tables.node_worker < tables.workers)
    is_phase = (tables.node_phase >= 0) & (tables.node_phase < len(Phase))
    return _where(~(is_worker & is_phase & (tables.node_id >= 0) & (tables.node_id < known)))


def _find_other_operators(tables: ProgramTables, graph: Graph) -> Column:
    copies = _where(tables.node_kind == NodeKind.OPERATOR)
    count = len(tables.node_kind)
    found = (
        np.bincount(tables.read_node, minlength=count)[copies],
        np.bincount(tables.entry_node, minlength=count)[copies],
        tables.node_phase[copies],
    )
    declared = _column((len(o.inputs), len(o.outputs), int(o.phase)) for o in graph.operators).reshape(-1, 3)
    return _pick(copies, (np.stack(found, axis=1) != declared[tables.node_id[copies]]).any(axis=1))


def _find_wrong_copies(tables: ProgramTables, graph: Graph) -> Column:
    keys = (tables.node_id * len(NodeKind) + tables.node_kind) * tables.workers + tables.node_worker
    single = _where(tables.node_kind != NodeKind.FETCH)
    _, place, counts = np.unique(keys[single], return_inverse=True, return_counts=True)
    copies = _where(tables.node_kind == NodeKind.OPERATOR)
    on_workers = np.bincount(tables.node_id[copies], minlength=len(graph.operators))
    return np.concatenate((single[counts[place] > 1], copies[on_workers[tables.node_id[copies]] != tables.workers]))


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
    there = tables.entry_begin[tables.source_entry] + tables.source_begin
    here = tables.entry_begin[first_entry] + tables.piece_begin[tables.source_piece]
    is_own = _find_tensors(tables, graph)[tables.source_entry] == tables.node_id[tables.source_node]
    return _pick(tables.source_node, is_own & (there != here).any(axis=1))


def _find_holes(tables: ProgramTables, graph: Graph) -> Column:
    """Return fetches from shards that leave out elements of their region.

    A fetch without pieces is an addend of zeros. Results of operators may also have gaps, such as the gradient of a slice.
    """
    first_entry = tables.entry_node.searchsorted(np.arange(len(tables.node_kind)))
    begin = tables.entry_begin[first_entry]
    end = begin + tables.entry_shape[first_entry]
    rank = begin.shape[1]
    shapes = (
        (*tensor.shape, *(1,) * rank)[:rank] for tensor in graph.tensors
    )  # no program has a tensor of more dimensions than `rank`
    whole = np.array(list(shapes), np.int64)
    inside = np.maximum(np.minimum(end, whole[tables.node_id % len(whole)]) - np.maximum(begin, 0), 0)
    written = np.bincount(tables.piece_node, tables.piece_extent.prod(axis=1), len(tables.node_kind))
    in_transit = np.isin(tables.source_entry, tables.transit_entry)
    is_other = _find_tensors(tables, graph)[tables.source_entry] != tables.node_id[tables.source_node]
    excused = np.bincount(tables.source_node[is_other | in_transit], minlength=len(tables.node_kind)) > 0
    is_read = np.bincount(tables.piece_node, minlength=len(tables.node_kind)) > 0
    return _where(is_read & ~excused & (written != inside.prod(axis=1)))


def _find_pieces_without_sources(tables: ProgramTables, graph: Graph) -> Column:
    return _pick(tables.piece_node, np.bincount(tables.source_piece, minlength=len(tables.piece_node)) == 0)


def _find_overlaps(tables: ProgramTables, graph: Graph) -> Column:
    found = []
    end = tables.piece_begin + tables.piece_extent
    first = np.arange(len(tables.piece_node) - 1)
    distance = 1
    while first.size:
        first = first[first + distance < len(tables.piece_node)]
        first = first[tables.piece_node[first] == tables.piece_node[first + distance]]
        second = first + distance
        meets = (tables.piece_begin[first] < end[second]) & (tables.piece_begin[second] < end[first])
        found.append(tables.piece_node[first[meets.all(axis=1)]])
        distance += 1
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _find_unlike_sources(tables: ProgramTables, graph: Graph) -> Column:
    sizes = _column(tensor.item_bytes for tensor in graph.tensors)
    read = sizes[_find_tensors(tables, graph)[tables.source_entry]]
    return _pick(tables.source_node, read != sizes[tables.node_id[tables.source_node]])


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
    ("elements of another size than its source", _find_unlike_sources),
)


def _check_results(program: Program) -> Iterator[str]:
    tables, wanted = program.tables, [output.tensor for output in program.outputs]
    entries = tables.output_entry[: len(wanted) * program.workers]
    if len(entries) < len(wanted) * program.workers:
        yield f"{len(entries)} entries for {len(wanted)} results on {program.workers} workers"
        return
    is_right = _find_tensors(tables, program.graph)[entries] == np.repeat(wanted, program.workers)
    is_right &= tables.node_worker[tables.entry_node[entries]] == np.tile(np.arange(program.workers), len(wanted))
    for result in np.unique(_where(~is_right) // max(program.workers, 1)).tolist():
        yield f"result {program.graph.tensors[wanted[result]].name} has no shard on some worker"


def _find_tensors(tables: ProgramTables, graph: Graph) -> Column:
    """Return the tensor of each entry. Copies of operators must have the right number of outputs."""
    first = np.cumsum([0, *(len(operator.outputs) for operator in graph.operators)])
    outputs = _column(chain.from_iterable(operator.outputs for operator in graph.operators))
    tensors: Column = tables.node_id[tables.entry_node]
    is_copy = tables.node_kind[tables.entry_node] == NodeKind.OPERATOR
    tensors[is_copy] = outputs[first[tensors[is_copy]] + tables.entry_output[is_copy]]
    return tensors


def _column(values: Iterable[object]) -> Column:
    return np.array(list(values), np.int64)


def _pick(rows: Column, mask: npt.NDArray[np.bool_]) -> Column:
    picked: Column = rows[mask]
    return picked


def _where(mask: npt.NDArray[np.bool_]) -> Column:
    return np.flatnonzero(mask)
