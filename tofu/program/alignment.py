"""Convert a `Program` (a list of nodes for each worker) to a `Lockstep` program (one list for all workers).

An *entry* is one array on one worker, the output of a node. A *value* is one entry on each worker, or `MISSING` on
workers without the array.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from tofu.errors import InternalError
from tofu.program.lockstep import Box, Compute, Lockstep, ProgramValue, Transfer
from tofu.program.patterns import PatternReader
from tofu.program.program import Program
from tofu.program.tables import Column, NodeKind, expand

MISSING = -1


def align_workers(program: Program, factors: Sequence[int], find_shards: Callable[[int], Column]) -> Lockstep:
    """Convert a program to instructions that all workers run together.

    `find_shards(tensor)` returns the region that each worker stores, as an array [workers, dimensions, (begin, end)].
    Raises InternalError if workers need different instructions, such as for arrays of different shapes.
    """
    return _Aligner(program, find_shards).run(tuple(factors))


class _Aligner:
    def __init__(self, program: Program, find_shards: Callable[[int], Column]) -> None:
        self.program, self.graph, self.tables = program, program.graph, program.tables
        self.find_shards = cache(find_shards)
        self.patterns = PatternReader(program)
        self.entry_tensor = program.entry_tensor
        self.values: list[ProgramValue] = []
        self.transfers: dict[int, Transfer] = {}
        self.value_by_entries: dict[bytes, int] = {}
        self.value_by_entry = np.full(len(self.entry_tensor), MISSING)  # the first value that contains the entry
        self.value_by_region: dict[Hashable, int] = {}  # for regions that no operator computes
        self.boxes_by_array: dict[Hashable, tuple[Box, ...]] = {}
        self.shard_value_by_tensor: dict[int, int] = {}
        self.unfinished_tensors: set[int] = set()  # tensors whose shards are being added
        self.shard_entries_by_tensor = dict(self._find_shard_entries())

    def run(self, factors: tuple[int, ...]) -> Lockstep:
        computes = {operator: self._add_compute(operator, nodes) for operator, nodes in self._list_copies()}
        result_entries = self.tables.output_entry[: len(self.program.outputs) * self.program.workers]
        results = tuple(map(self.find_value, result_entries.reshape(-1, self.program.workers)))
        produced = {tensor for operator in self.graph.operators for tensor in operator.outputs}
        for tensor in range(len(self.graph.tensors)):
            if tensor in self.shard_entries_by_tensor or tensor not in produced:
                self.find_shard_value(tensor)
        shards = self.shard_value_by_tensor
        return Lockstep(self.graph, factors, tuple(self.values), shards, computes, self.transfers, results)

    def _list_copies(self) -> Iterator[tuple[int, Column]]:
        nodes = np.flatnonzero(self.tables.node_kind == NodeKind.OPERATOR)
        operators, first = np.unique(self.tables.node_id[nodes], return_index=True)
        nodes = nodes[np.lexsort((self.tables.node_worker[nodes], self.tables.node_id[nodes]))]
        copies = nodes.reshape(-1, self.program.workers)
        yield from ((int(operators[n]), copies[n]) for n in np.argsort(first))

    def _add_compute(self, operator: int, nodes: Column) -> Compute:
        begins, ends = self.tables.first_read[nodes], self.tables.first_read[nodes + 1]
        read_entries = self.tables.read_entry[expand(begins, ends)].reshape(len(nodes), -1)
        inputs = tuple(map(self.find_value, read_entries.T))
        first = self.tables.first_entry[nodes]
        outputs = tuple(self._add_value(first + n) for n in range(len(self.graph.operators[operator].outputs)))
        for value in map(self.values.__getitem__, (*inputs, *outputs)):
            if not value.is_even:
                names = self.graph.tensors[value.tensor].name, self.graph.operators[operator].name
                raise InternalError(
                    f"The workers' arrays of {names[0]} at {names[1]} have different shapes: {value.boxes}."
                )
        return Compute(operator, inputs, outputs)

    def _find_shard_entries(self) -> Iterator[tuple[int, Column]]:
        entries = np.flatnonzero(~self.tables.is_transit)
        entries = entries[np.argsort(self.entry_tensor[entries], kind="stable")]
        tensors, begins = np.unique(self.entry_tensor[entries], return_index=True)
        for tensor, group in zip(tensors.tolist(), np.split(entries, begins)[1:], strict=True):
            workers, shards = self.tables.entry_worker[group], self.find_shards(tensor)
            is_shard = (self._find_regions(group) == shards[workers]).all(axis=(1, 2))
            if is_shard.any():
                shard_entries = np.full(self.program.workers, MISSING)
                shard_entries[workers[is_shard][::-1]] = group[is_shard][::-1]  # the first one of each worker
                yield tensor, shard_entries

    def _find_regions(self, entries: Column) -> Column:
        rank = self.tables.entry_rank[entries[0]]
        begins = self.tables.entry_begin[entries, :rank]
        return np.stack((begins, begins + self.tables.entry_shape[entries, :rank]), axis=2)

    def find_value(self, entries: Column) -> int:
        if (value := self.value_by_entries.get(entries.tobytes())) is not None:
            return value
        tensor = self._find_tensor(entries)
        shard_entries = self.shard_entries_by_tensor.get(tensor)
        if shard_entries is not None and tensor not in self.unfinished_tensors:
            shard_value = self.find_shard_value(tensor)
            if ((entries == MISSING) | (entries == shard_entries)).all():
                return shard_value
        return self._add_transferred_value(tensor, entries, self._find_boxes(entries))

    def _find_tensor(self, entries: Column) -> int:
        return int(self.entry_tensor[entries[entries != MISSING][0]])

    def find_shard_value(self, tensor: int) -> int:
        if tensor in self.shard_value_by_tensor:
            return self.shard_value_by_tensor[tensor]
        boxes = self._share_boxes(self.find_shards(tensor))
        entries = self.shard_entries_by_tensor.get(tensor, np.full(self.program.workers, MISSING))
        present = entries[entries != MISSING]
        if (value := self.value_by_entries.get(entries.tobytes())) is not None:
            pass
        elif (self.tables.node_kind[self.tables.entry_node[present]] == NodeKind.VARIABLE).all():
            value = self._add_value(entries, ProgramValue(tensor, boxes))
        else:
            self.unfinished_tensors.add(tensor)
            value = self._add_transferred_value(tensor, entries, boxes)
            self.unfinished_tensors.remove(tensor)
        self.shard_value_by_tensor[tensor] = value
        return value

    def _find_boxes(self, entries: Column) -> tuple[Box, ...]:
        is_missing = entries == MISSING
        regions = self._find_regions(np.where(is_missing, entries[~is_missing][0], entries))
        regions[is_missing, :, 1] = regions[is_missing, :, 0]
        return self._share_boxes(regions)

    def _share_boxes(self, regions: npt.NDArray[np.int64]) -> tuple[Box, ...]:
        key = regions.shape, regions.tobytes()
        if key not in self.boxes_by_array:
            self.boxes_by_array[key] = tuple(tuple(map(tuple, box)) for box in regions.tolist())
        return self.boxes_by_array[key]

    def _add_value(self, entries: Column, value: ProgramValue | None = None) -> int:
        number = len(self.values)
        self.values.append(value or ProgramValue(self._find_tensor(entries), self._find_boxes(entries)))
        present = entries[entries != MISSING]
        if present.size:
            self.value_by_entries.setdefault(entries.tobytes(), number)
        self.value_by_entry[present[self.value_by_entry[present] == MISSING]] = number
        return number

    def _add_transferred_value(self, tensor: int, entries: Column, boxes: tuple[Box, ...]) -> int:
        fetches = entries[entries != MISSING]
        fetches = fetches[self._is_new_fetch(fetches)]
        fill = self._find_fill(tensor, fetches)
        pieces, copies, source_entries = self.patterns.list_pieces(tensor, entries, boxes, self._is_new_fetch)
        source_entries, sources = _find_unique(source_entries)
        source_values = self._find_source_values(tensor, source_entries)
        if not self._is_new_fetch(fetches).all():  # other workers read some of them; these are in values
            return self._add_transferred_value(tensor, entries, boxes)
        inputs = tuple(dict.fromkeys(source_values))
        region: Hashable = None
        if inputs == (self.shard_value_by_tensor.get(tensor),):  # a fetched region, or a result in another layout
            columns = pieces.reader, pieces.begin, pieces.extent
            region = tensor, boxes, repr(fill), *(column.tobytes() for column in columns)
            if region in self.value_by_region:
                self.value_by_entries[entries.tobytes()] = self.value_by_region[region]
                return self.value_by_region[region]
        value = self._add_value(entries, ProgramValue(tensor, boxes))
        if region is not None:
            self.value_by_region[region] = value
        input_positions = np.array([inputs.index(source) for source in source_values], np.int64)[sources]
        reducer = self.program.reducers.get(tensor, "Sum")
        pattern = self.patterns.share_pattern(pieces._replace(source_input=input_positions), copies, fill, reducer)
        self.transfers[value] = Transfer(value, inputs, pattern)
        return value

    def _is_new_fetch(self, entries: Column) -> npt.NDArray[np.bool_]:
        is_fetch = self.tables.node_kind[self.tables.entry_node[entries]] == NodeKind.FETCH
        return np.asarray(is_fetch & (self.value_by_entry[entries] == MISSING))

    def _find_fill(self, tensor: int, fetches: Column) -> float:
        if self.program.readers:
            fetches = fetches[np.isin(self.tables.entry_worker[fetches], list(self.program.readers))]
        nodes = self.tables.entry_node[fetches]
        is_covered = self.tables.fetched_elements[nodes] >= self.tables.entry_shape[fetches].prod(axis=1)
        fills = np.unique(self.tables.node_fill[nodes[~is_covered]]).tolist()
        if len(fills) > 1:
            raise InternalError(f"Workers fill regions of {self.graph.tensors[tensor].name} with {fills}.")
        return max(fills, default=0.0)

    def _find_source_values(self, tensor: int, entries: Column) -> list[int]:
        is_transit, tensors = self.tables.is_transit[entries].tolist(), self.entry_tensor[entries].tolist()
        workers = self.tables.entry_worker[entries].tolist()
        fetches_by_owner: dict[tuple[int, int], list[int]] = {}  # by tensor and worker
        keys: list[tuple[str, int, int]] = []
        for n, entry in enumerate(entries.tolist()):
            if not is_transit[n] and (tensors[n] != tensor or tensor in self.shard_value_by_tensor):
                keys.append(("shards", tensors[n], 0))
            elif (value := int(self.value_by_entry[entry])) != MISSING:
                keys.append(("value", value, 0))
            else:
                fetches = fetches_by_owner.setdefault((tensors[n], workers[n]), [])
                keys.append(("fetches", tensors[n], len(fetches)))
                fetches.append(entry)
        value_by_key: dict[tuple[str, int, int], int] = {}
        for key in dict.fromkeys(keys):
            kind, number, position = key
            if kind == "fetches":
                by_worker = (fetches_by_owner.get((number, worker), []) for worker in range(self.program.workers))
                row = [fetches[position] if position < len(fetches) else MISSING for fetches in by_worker]
                value_by_key[key] = self.find_value(np.array(row, np.int64))
            else:
                value_by_key[key] = self.find_shard_value(number) if kind == "shards" else number
        return [value_by_key[key] for key in keys]


def _find_unique(entries: Column) -> tuple[Column, Column]:
    unique, first, positions = np.unique(entries, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return unique[order], np.argsort(order)[positions]
