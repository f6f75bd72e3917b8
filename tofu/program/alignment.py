"""Convert a `Program`, with separate nodes for each worker, to a `Lockstep` program, with instructions for all workers.

An *entry* is an array on one worker: an output of a node. A *value* consists of one entry for each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from math import prod
from typing import NamedTuple, TypeAlias

from tofu.errors import InternalError
from tofu.program.lockstep import Box, Compute, Lockstep, ProgramValue, Read, Shape, Transfer, TransferPiece
from tofu.program.nodes import Entry, Node
from tofu.program.program import Program
from tofu.program.tables import NodeKind


def align_workers(program: Program, factors: Sequence[int], find_shards: Callable[[int], tuple[Box, ...]]) -> Lockstep:
    """Convert a program to instructions that all workers run together.

    `find_shards` returns the region of a tensor that each worker stores. Raises InternalError if an operator's arrays
    differ in shape between workers, or if a transfer fills gaps with different numbers on two workers.
    """
    return _Aligner(program, find_shards).run(tuple(factors))


EntryByWorker: TypeAlias = "tuple[Entry | None, ...]"
"""For each worker, an output of a node on this worker, or None."""


class _EntryRead(NamedTuple):
    entry: Entry
    begin: Shape
    along: Shape


class _EntryPiece(NamedTuple):
    reader: int
    begin: Shape
    extent: Shape
    reads: tuple[_EntryRead, ...]


class _Aligner:
    def __init__(self, program: Program, find_shards: Callable[[int], tuple[Box, ...]]) -> None:
        self.program, self.graph, self.nodes = program, program.graph, program.nodes
        self.find_shards = cache(find_shards)
        self.values: list[ProgramValue] = []
        self.transfers: dict[int, Transfer] = {}
        self.value_by_entries: dict[EntryByWorker, int] = {}
        self.value_by_entry: dict[Entry, int] = {}  # the first value that contains the entry
        self.value_by_region: dict[Hashable, int] = {}  # for regions that no operator computes
        self.shard_value_by_tensor: dict[int, int] = {}
        self.unfinished_tensors: set[int] = set()  # tensors whose shards are being added
        self.shard_entries_by_tensor = self._find_shard_entries()

    def run(self, factors: tuple[int, ...]) -> Lockstep:
        computes = {
            operator: self._add_compute(operator, copies)
            for operator, copies in self._list_copies_by_operator().items()
        }
        results = tuple(self.find_value(entries) for entries in self.program.results)
        produced = {tensor for operator in self.graph.operators for tensor in operator.outputs}
        for tensor in range(len(self.graph.tensors)):
            if tensor in self.shard_entries_by_tensor or tensor not in produced:
                self.find_shard_value(tensor)
        shards = self.shard_value_by_tensor
        return Lockstep(self.graph, factors, tuple(self.values), shards, computes, self.transfers, results)

    def _add_compute(self, operator: int, copies: Sequence[int]) -> Compute:
        inputs_by_worker = (self.nodes[number].inputs for number in copies)
        inputs = tuple(self.find_value(entries) for entries in zip(*inputs_by_worker, strict=True))
        output_numbers = range(len(self.graph.operators[operator].outputs))
        outputs = tuple(self._add_value(tuple(Entry(number, n) for number in copies)) for n in output_numbers)
        for value in map(self.values.__getitem__, (*inputs, *outputs)):
            if not value.is_even:
                names = self.graph.tensors[value.tensor].name, self.graph.operators[operator].name
                raise InternalError(
                    f"The workers' arrays of {names[0]} at {names[1]} have different shapes: {value.boxes}."
                )
        return Compute(operator, inputs, outputs)

    def _find_shard_entries(self) -> dict[int, EntryByWorker]:
        shard_entries: dict[int, list[Entry | None]] = {}
        for number, node in enumerate(self.nodes):
            for output in range(len(node.shapes)):
                entry = Entry(number, output)
                if entry in self.program.transit:
                    continue
                tensor = self._find_tensor(entry)
                if self._find_box(entry) == self.find_shards(tensor)[node.worker]:
                    entries = shard_entries.setdefault(tensor, [None] * self.program.workers)
                    entries[node.worker] = entries[node.worker] or entry
        return {tensor: tuple(entries) for tensor, entries in shard_entries.items()}

    def _list_copies_by_operator(self) -> dict[int, list[int]]:
        copies_by_operator: dict[int, list[int]] = {}
        for number, node in enumerate(self.nodes):
            if node.kind is NodeKind.OPERATOR:
                copies_by_operator.setdefault(node.id, []).append(number)
        return {
            operator: sorted(copies, key=lambda number: self.nodes[number].worker)
            for operator, copies in copies_by_operator.items()
        }

    def _find_tensor(self, entry: Entry) -> int:
        node = self.nodes[entry.node]
        return self.graph.operators[node.id].outputs[entry.output] if node.kind is NodeKind.OPERATOR else node.id

    def _find_box(self, entry: Entry) -> Box:
        node = self.nodes[entry.node]
        pairs = zip(node.begins[entry.output], node.shapes[entry.output], strict=True)
        return tuple((begin, begin + extent) for begin, extent in pairs)

    def find_value(self, entries: EntryByWorker) -> int:
        if entries in self.value_by_entries:
            return self.value_by_entries[entries]
        tensor = next(self._find_tensor(entry) for entry in entries if entry is not None)
        shard_entries = self.shard_entries_by_tensor.get(tensor)
        if shard_entries is not None and tensor not in self.unfinished_tensors:
            shard_value = self.find_shard_value(tensor)
            if all(entry in (None, shard) for entry, shard in zip(entries, shard_entries, strict=True)):
                return shard_value
        return self._add_transferred_value(tensor, entries, self._find_boxes(entries))

    def find_shard_value(self, tensor: int) -> int:
        if tensor in self.shard_value_by_tensor:
            return self.shard_value_by_tensor[tensor]
        boxes = self.find_shards(tensor)
        entries = self.shard_entries_by_tensor.get(tensor, (None,) * self.program.workers)
        if entries in self.value_by_entries:
            value = self.value_by_entries[entries]
        elif all(entry is None or self.nodes[entry.node].kind is NodeKind.VARIABLE for entry in entries):
            value = self._add_value(entries, ProgramValue(tensor, boxes))
        else:
            self.unfinished_tensors.add(tensor)
            value = self._add_transferred_value(tensor, entries, boxes)
            self.unfinished_tensors.remove(tensor)
        self.shard_value_by_tensor[tensor] = value
        return value

    def _find_boxes(self, entries: EntryByWorker) -> tuple[Box, ...]:
        first_box = next(self._find_box(entry) for entry in entries if entry is not None)
        empty_box = tuple((begin, begin) for begin, _ in first_box)
        return tuple(empty_box if entry is None else self._find_box(entry) for entry in entries)

    def _add_value(self, entries: EntryByWorker, value: ProgramValue | None = None) -> int:
        if value is None:
            tensor = next(self._find_tensor(entry) for entry in entries if entry is not None)
            value = ProgramValue(tensor, self._find_boxes(entries))
        number = len(self.values)
        self.values.append(value)
        if any(entries):
            self.value_by_entries.setdefault(entries, number)
        for entry in entries:
            if entry is not None:
                self.value_by_entry.setdefault(entry, number)
        return number

    def _add_transferred_value(self, tensor: int, entries: EntryByWorker, boxes: tuple[Box, ...]) -> int:
        fetches = [entry for entry in entries if entry is not None and self._is_new_fetch(entry)]
        fill = self._find_fill(tensor, fetches)
        entry_pieces, copies = self._list_pieces(tensor, entries, boxes)
        inputs, pieces = self._find_inputs(tensor, entry_pieces)
        if not all(map(self._is_new_fetch, fetches)):  # other workers read some of them; these are in values
            return self._add_transferred_value(tensor, entries, boxes)
        region: Hashable = None
        if inputs == (self.shard_value_by_tensor.get(tensor),):  # a fetched region, or a result in another layout
            region = tensor, boxes, fill, tuple((piece.reader, piece.begin, piece.extent) for piece in pieces)
            if region in self.value_by_region:
                self.value_by_entries[entries] = self.value_by_region[region]
                return self.value_by_region[region]
        value = self._add_value(entries, ProgramValue(tensor, boxes))
        if region is not None:
            self.value_by_region[region] = value
        reducer = self.program.reducers.get(tensor, "Sum")
        self.transfers[value] = Transfer(value, inputs, tuple(pieces), tuple(copies), fill, reducer)
        return value

    def _is_new_fetch(self, entry: Entry) -> bool:
        return self.nodes[entry.node].kind is NodeKind.FETCH and entry not in self.value_by_entry

    def _find_fill(self, tensor: int, fetches: Iterable[Entry]) -> float:
        nodes = (self.nodes[entry.node] for entry in fetches)
        fills = {node.fill for node in nodes if not _is_covered(node)}
        if len(fills) > 1:
            raise InternalError(f"Workers fill regions of {self.graph.tensors[tensor].name} with {sorted(fills)}.")
        return max(fills, default=0.0)

    def _list_pieces(
        self, tensor: int, entries: EntryByWorker, boxes: Sequence[Box]
    ) -> tuple[list[_EntryPiece], list[TransferPiece]]:
        pieces: list[_EntryPiece] = []
        copies: list[TransferPiece] = []
        assembled: set[Entry] = set()
        for worker, entry in enumerate(entries):
            if entry is None or entry in assembled:
                continue
            node = self.nodes[entry.node]
            if not self._is_new_fetch(entry):
                shape = node.shapes[entry.output]
                origin, dimensions = (0,) * len(shape), tuple(range(len(shape)))
                pieces.append(_EntryPiece(worker, origin, shape, (_EntryRead(entry, origin, dimensions),)))
                continue
            assembled.add(entry)
            for piece in self._list_entry_pieces(entry):
                if len(piece.reads) != 1 or not self._is_partial_sum(piece.reads[0].entry, tensor, entries):
                    pieces.append(piece)
                    continue
                partial_sum, begin, along = piece.reads[0]
                owner, offset = self.nodes[partial_sum.node].worker, self._find_offset(partial_sum, boxes)
                if partial_sum not in assembled:
                    assembled.add(partial_sum)
                    addends = self._list_entry_pieces(partial_sum)
                    pieces += (addend._replace(begin=_add(addend.begin, offset)) for addend in addends)
                if owner != worker:
                    read = Read(0, owner, _add(begin, offset), along)
                    copies.append(TransferPiece(worker, piece.begin, piece.extent, (read,)))
        return pieces, copies

    def _list_entry_pieces(self, fetch: Entry) -> Iterator[_EntryPiece]:
        node = self.nodes[fetch.node]
        for piece in node.pieces:
            reads = (_EntryRead(node.inputs[source.input], source.begin, source.along) for source in piece.sources)
            yield _EntryPiece(node.worker, piece.begin, piece.extent, tuple(reads))

    def _is_partial_sum(self, entry: Entry, tensor: int, entries: EntryByWorker) -> bool:
        node = self.nodes[entry.node]
        if node.id != tensor or not self._is_new_fetch(entry):
            return False
        if entry not in self.program.transit and entries[node.worker] != entry:
            return False
        return bool(node.inputs) and all(  # without inputs, a region outside the tensor is filled with a number
            self._find_tensor(read) == tensor and not self._is_partial_sum(read, tensor, entries)
            for read in node.inputs
        )

    def _find_offset(self, entry: Entry, boxes: Sequence[Box]) -> Shape:
        node = self.nodes[entry.node]
        return tuple(n - begin for n, (begin, _) in zip(node.begins[0], boxes[node.worker], strict=True))

    def _find_inputs(self, tensor: int, pieces: Sequence[_EntryPiece]) -> tuple[tuple[int, ...], list[TransferPiece]]:
        entries = dict.fromkeys(read.entry for piece in pieces for read in piece.reads)
        value_by_entry = self._find_value_by_entry(tensor, entries)
        inputs = tuple(dict.fromkeys(value_by_entry.values()))

        def convert(read: _EntryRead) -> Read:
            owner = self.nodes[read.entry.node].worker
            return Read(inputs.index(value_by_entry[read.entry]), owner, read.begin, read.along)

        converted = [
            TransferPiece(piece.reader, piece.begin, piece.extent, tuple(map(convert, piece.reads))) for piece in pieces
        ]
        return inputs, converted

    def _find_value_by_entry(self, tensor: int, entries: Iterable[Entry]) -> dict[Entry, int]:
        fetches_by_owner: dict[tuple[int, int], list[Entry]] = {}  # by tensor and worker
        key_by_entry: dict[Entry, tuple[str, int, int]] = {}
        for entry in entries:
            entry_tensor = self._find_tensor(entry)
            if entry not in self.program.transit and (entry_tensor != tensor or tensor in self.shard_value_by_tensor):
                key_by_entry[entry] = "shards", entry_tensor, 0
            elif entry in self.value_by_entry:
                key_by_entry[entry] = "value", self.value_by_entry[entry], 0
            else:
                fetches = fetches_by_owner.setdefault((entry_tensor, self.nodes[entry.node].worker), [])
                key_by_entry[entry] = "fetches", entry_tensor, len(fetches)
                fetches.append(entry)
        value_by_key: dict[tuple[str, int, int], int] = {}
        for key in dict.fromkeys(key_by_entry.values()):
            kind, number, position = key
            if kind == "fetches":
                by_worker = (fetches_by_owner.get((number, worker), []) for worker in range(self.program.workers))
                value_by_key[key] = self.find_value(
                    tuple(fetches[position] if position < len(fetches) else None for fetches in by_worker)
                )
            else:
                value_by_key[key] = self.find_shard_value(number) if kind == "shards" else number
        return {entry: value_by_key[key] for entry, key in key_by_entry.items()}


def _add(position: Shape, offset: Shape) -> Shape:
    return tuple(map(sum, zip(position, offset, strict=True)))


def _is_covered(fetch: Node) -> bool:
    return sum(prod(piece.extent) for piece in fetch.pieces) >= prod(fetch.shapes[0])
