"""Programs as instructions that all workers execute together (SPMD), for backends with collectives.

A `Program` lists the nodes of each worker. Here the copies of an operator are one instruction, and the fetches of all
workers for one array are one transfer. A *value* is one array on each worker.

    values     4: x {0:2} {2:4}    5: x {0:4} {0:4}
    transfer   5 = 4 by pieces {reader 0, owner 1, 2:4} {reader 1, owner 0, 0:2} and each worker's own part
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from typing import NamedTuple, TypeAlias

from tofu.errors import InternalError
from tofu.graph import Graph
from tofu.program.nodes import Entry, NodeKind
from tofu.program.program import Program

Box: TypeAlias = tuple[tuple[int, int], ...]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class ProgramValue:
    """One array on each worker: a shard, a fetched region or a partial result. `boxes` are their places in the tensor, by worker."""

    tensor: int
    boxes: tuple[Box, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the array, which is equal on all workers. An array may be larger than its box."""
        return tuple(max(end - begin for begin, end in bounds) for bounds in zip(*self.boxes, strict=True))

    @property
    def is_even(self) -> bool:
        """True if all boxes have the same extents."""
        return all(tuple(end - begin for begin, end in box) == self.shape for box in self.boxes)


class Compute(NamedTuple):
    """Instruction in which each worker computes its part of an operator. Inputs and outputs are numbers of values."""

    operator: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Read(NamedTuple):
    """Box that a transfer reads from its input number `input` on worker `owner`, from `begin` on. `along` is as in `PieceSource`."""

    input: int
    owner: int
    begin: Shape
    along: Shape


class TransferPiece(NamedTuple):
    """Box of the array that worker `reader` assembles. The box becomes the sum of `reads`."""

    reader: int
    begin: Shape
    extent: Shape
    reads: tuple[Read, ...]

    @property
    def remote_elements(self) -> int:
        """The number of elements that the reader receives from other workers."""
        return prod(self.extent) * sum(read.owner != self.reader for read in self.reads)


@dataclass(frozen=True)
class Transfer:
    """Instruction in which workers read from each other's arrays to assemble a value.

    The workers first read `pieces`. Elements in no piece become `fill`. If several workers need one sum, each adds up a
    part of it, and then they read each other's parts, the `copies`.
    """

    output: int
    inputs: tuple[int, ...]
    pieces: tuple[TransferPiece, ...]
    copies: tuple[TransferPiece, ...] = ()
    fill: float = 0.0
    reducer: str = "Sum"

    @property
    def remote_elements(self) -> int:
        """The number of elements that workers receive from each other."""
        return sum(piece.remote_elements for piece in (*self.pieces, *self.copies))

    @property
    def is_sum(self) -> bool:
        """True if partial results are reduced."""
        return any(len(piece.reads) > 1 for piece in self.pieces)


@dataclass(frozen=True)
class Lockstep:
    """Program that all workers execute together.

    Attributes
    ----------
    factors
        The shape of the mesh of workers, which has an axis for each round of the plan.
    values
        All arrays, as values.
    shards
        For each tensor, the number of the value that holds its shards.
    computes
        The instruction of each operator. Operators that only move elements may have none, because transfers compute their
        outputs.
    transfers
        For each value that a transfer computes, the transfer. All other values are arguments or operators' outputs.
    results
        The number of the value of each result of the program.
    """

    graph: Graph
    factors: tuple[int, ...]
    values: tuple[ProgramValue, ...]
    shards: Mapping[int, int]
    computes: Mapping[int, Compute]
    transfers: Mapping[int, Transfer]
    results: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of workers."""
        return prod(self.factors)

    @cached_property
    def moved_bytes(self) -> int:
        """The bytes that workers receive from each other in a training step."""
        return sum(
            transfer.remote_elements * self.graph.tensors[self.values[output].tensor].moved_item_bytes
            for output, transfer in self.transfers.items()
        )

    def find_base(self, value: int) -> Iterator[int]:
        """Yield the arguments and operators' outputs from which a value is computed by transfers alone."""
        transfer = self.transfers.get(value)
        if transfer is None:
            yield value
        else:
            for number in transfer.inputs:
                yield from self.find_base(number)


def align(program: Program, factors: Sequence[int], find_shards: Callable[[int], tuple[Box, ...]]) -> Lockstep:
    """Convert a program to instructions for all workers at once.

    `find_shards` returns the boxes of a tensor's shards, by worker. Raises InternalError if an operator's arrays differ
    in shape between workers, or if workers fill a region with different numbers.
    """
    return _Aligner(program, find_shards).run(tuple(factors))


Entries: TypeAlias = "tuple[Entry | None, ...]"
"""One entry (an output of a node) per worker, or None for a worker on which nothing is read."""


class _Cut(NamedTuple):
    reader: int
    begin: Shape
    extent: Shape
    sources: tuple[tuple[Entry, Shape, Shape], ...]


class _Aligner:
    """Search for the values of a program: first of operators in order, then of results, then of all other shards."""

    def __init__(self, program: Program, find_shards: Callable[[int], tuple[Box, ...]]) -> None:
        self.program, self.graph, self.nodes = program, program.graph, program.nodes
        self.find_shards = cache(find_shards)
        self.values: list[ProgramValue] = []
        self.transfers: dict[int, Transfer] = {}
        self.known: dict[Entries, int] = {}
        self.home: dict[Entry, int] = {}  # the first value that has an entry
        self.shards: dict[int, int] = {}
        self.regions: dict[Hashable, int] = {}  # regions that are fetched from shards
        self.open: set[int] = set()  # tensors whose shards are being added
        self.shard_entries = self._list_shards()

    def run(self, factors: tuple[int, ...]) -> Lockstep:
        computes = {}
        for operator, copies in self._list_copies().items():
            slots = zip(*(self.nodes[number].inputs for number in copies), strict=True)
            inputs = tuple(self.find(entries) for entries in slots)
            count = len(self.graph.operators[operator].outputs)
            outputs = tuple(self._add(tuple(Entry(number, output) for number in copies)) for output in range(count))
            computes[operator] = Compute(operator, inputs, outputs)
            for value in map(self.values.__getitem__, (*inputs, *outputs)):
                if not value.is_even:
                    names = self.graph.tensors[value.tensor].name, self.graph.operators[operator].name
                    raise InternalError(
                        f"The workers' arrays of {names[0]} at {names[1]} have different shapes: {value.boxes}."
                    )
        results = tuple(self.find(entries) for entries in self.program.results)
        produced = {tensor for operator in self.graph.operators for tensor in operator.outputs}
        for tensor in range(len(self.graph.tensors)):
            if tensor in self.shard_entries or tensor not in produced:
                self.find_tensor(tensor)
        return Lockstep(self.graph, factors, tuple(self.values), self.shards, computes, self.transfers, results)

    def _list_shards(self) -> dict[int, Entries]:
        """Return the entries that are shards, by tensor."""
        found: dict[int, list[Entry | None]] = {}
        for number, node in enumerate(self.nodes):
            for output in range(len(node.shapes)):
                entry = Entry(number, output)
                if entry in self.program.transit:
                    continue
                tensor = self._tensor(entry)
                if self._box(entry) == self.find_shards(tensor)[node.worker]:
                    entries = found.setdefault(tensor, [None] * self.program.workers)
                    entries[node.worker] = entries[node.worker] or entry
        return {tensor: tuple(entries) for tensor, entries in found.items()}

    def _list_copies(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, node in enumerate(self.nodes):
            if node.kind is NodeKind.OPERATOR:
                found.setdefault(node.id, []).append(number)
        return {operator: sorted(copies, key=lambda n: self.nodes[n].worker) for operator, copies in found.items()}

    def _tensor(self, entry: Entry) -> int:
        node = self.nodes[entry.node]
        return self.graph.operators[node.id].outputs[entry.output] if node.kind is NodeKind.OPERATOR else node.id

    def _box(self, entry: Entry) -> Box:
        node = self.nodes[entry.node]
        pairs = zip(node.begins[entry.output], node.shapes[entry.output], strict=True)
        return tuple((begin, begin + extent) for begin, extent in pairs)

    def find(self, entries: Entries) -> int:
        if entries in self.known:
            return self.known[entries]
        tensor = next(self._tensor(entry) for entry in entries if entry is not None)
        own = self.shard_entries.get(tensor)
        if own is not None and tensor not in self.open:
            shards = self.find_tensor(tensor)
            if all(entry in (None, other) for entry, other in zip(entries, own, strict=True)):
                return shards
        return self._make(tensor, entries, self._complete(entries))

    def find_tensor(self, tensor: int) -> int:
        if tensor in self.shards:
            return self.shards[tensor]
        boxes = self.find_shards(tensor)
        entries = self.shard_entries.get(tensor, (None,) * self.program.workers)
        if entries in self.known:
            self.shards[tensor] = self.known[entries]
        elif all(entry is None or self.nodes[entry.node].kind is NodeKind.VARIABLE for entry in entries):
            self.shards[tensor] = self._add(entries, ProgramValue(tensor, boxes))
        else:
            self.open.add(tensor)
            self.shards[tensor] = self._make(tensor, entries, boxes)
            self.open.remove(tensor)
        return self.shards[tensor]

    def _complete(self, entries: Entries) -> tuple[Box, ...]:
        """Return the boxes of entries. A worker without an entry has an empty box."""
        some = next(self._box(entry) for entry in entries if entry is not None)
        empty = tuple((begin, begin) for begin, _ in some)
        return tuple(empty if entry is None else self._box(entry) for entry in entries)

    def _add(self, entries: Entries, value: ProgramValue | None = None) -> int:
        if value is None:
            some = next(entry for entry in entries if entry is not None)
            value = ProgramValue(self._tensor(some), self._complete(entries))
        number = len(self.values)
        self.values.append(value)
        if any(entries):
            self.known.setdefault(entries, number)
        for entry in entries:
            if entry is not None:
                self.home.setdefault(entry, number)
        return number

    def _make(self, tensor: int, entries: Entries, boxes: tuple[Box, ...]) -> int:
        """Add a value whose entries are fetched, or are parts of other values, with the transfer that computes it."""
        pieces: list[_Cut] = []
        copies: list[TransferPiece] = []
        added: set[Entry] = set()  # partial sums that were added
        fills: set[float] = set()
        for worker, entry in enumerate(entries):
            if entry is None:
                continue
            node = self.nodes[entry.node]
            if entry in self.home or node.kind is not NodeKind.FETCH:
                shape = node.shapes[entry.output]
                whole = (entry, (0,) * len(shape), tuple(range(len(shape))))
                pieces.append(_Cut(worker, (0,) * len(shape), shape, (whole,)))
                continue
            if sum(prod(piece.extent) for piece in node.pieces) < prod(node.shapes[entry.output]):
                fills.add(node.fill)
            if entry in added:
                continue
            added.add(entry)
            for piece in node.pieces:
                sources = tuple((node.inputs[source.input], source.begin, source.along) for source in piece.sources)
                if len(sources) == 1 and self._is_partial_sum(sources[0][0], tensor, entries):
                    ((part, begin, along),) = sources
                    offset = self._find_offset(part, boxes)
                    if part not in added:
                        added.add(part)
                        pieces += self._list_addends(part, offset)
                    owner = self.nodes[part.node].worker
                    if owner != worker:
                        place = tuple(map(sum, zip(begin, offset, strict=True)))
                        copies.append(TransferPiece(worker, piece.begin, piece.extent, (Read(0, owner, place, along),)))
                else:
                    pieces.append(_Cut(worker, piece.begin, piece.extent, sources))
        if len(fills) > 1:
            raise InternalError(f"Workers fill regions of {self.graph.tensors[tensor].name} with {sorted(fills)}.")
        inputs, read = self._find_inputs(tensor, pieces)
        fill = max(fills, default=0.0)
        same: Hashable = None
        if inputs == (self.shards.get(tensor),):  # a region, or a result in another layout
            same = tensor, boxes, fill, tuple((piece.reader, piece.begin, piece.extent) for piece in read)
            if same in self.regions:
                self.known[entries] = self.regions[same]
                return self.regions[same]
        value = self._add(entries, ProgramValue(tensor, boxes))
        if same is not None:
            self.regions[same] = value
        reducer = self.program.reducers.get(tensor, "Sum")
        self.transfers[value] = Transfer(value, inputs, tuple(read), tuple(copies), fill, reducer)
        return value

    def _is_partial_sum(self, entry: Entry, tensor: int, entries: Entries) -> bool:
        """Return True if an entry is one worker's part of a sum that several workers need.

        If its worker needs only this part, `entries` contains the entry.
        """
        node = self.nodes[entry.node]
        if node.kind is not NodeKind.FETCH or node.id != tensor or entry in self.home:
            return False
        if entry not in self.program.transit and entries[node.worker] != entry:
            return False
        return bool(node.inputs) and all(  # without inputs, a region outside of the tensor is filled with a number
            self._tensor(read) == tensor and not self._is_partial_sum(read, tensor, entries) for read in node.inputs
        )

    def _find_offset(self, entry: Entry, boxes: Sequence[Box]) -> Shape:
        node = self.nodes[entry.node]
        return tuple(n - begin for n, (begin, _) in zip(node.begins[0], boxes[node.worker], strict=True))

    def _list_addends(self, part: Entry, offset: Shape) -> Iterator[_Cut]:
        node = self.nodes[part.node]
        for piece in node.pieces:
            begin = tuple(map(sum, zip(piece.begin, offset, strict=True)))
            sources = tuple((node.inputs[source.input], source.begin, source.along) for source in piece.sources)
            yield _Cut(node.worker, begin, piece.extent, sources)

    def _find_inputs(self, tensor: int, pieces: Sequence[_Cut]) -> tuple[tuple[int, ...], list[TransferPiece]]:
        fetched: dict[tuple[int, int], list[Entry]] = {}
        keys: dict[Entry, tuple[str, int, int]] = {}
        for entry in (entry for piece in pieces for entry, _, _ in piece.sources):
            if entry in keys:
                continue
            read = self._tensor(entry)
            if entry not in self.program.transit and (read != tensor or tensor in self.shards):
                keys[entry] = "shards", read, 0
            elif entry in self.home:
                keys[entry] = "value", self.home[entry], 0
            else:
                alike = fetched.setdefault((read, self.nodes[entry.node].worker), [])
                keys[entry] = "fetched", read, len(alike)
                alike.append(entry)
        numbers: dict[tuple[str, int, int], int] = {}
        for key in dict.fromkeys(keys.values()):
            kind, number, position = key
            if kind == "fetched":
                lists = (fetched.get((number, worker), []) for worker in range(self.program.workers))
                numbers[key] = self.find(tuple(alike[position] if position < len(alike) else None for alike in lists))
            else:
                numbers[key] = self.find_tensor(number) if kind == "shards" else number
        inputs = tuple(dict.fromkeys(numbers.values()))

        def read_from(source: tuple[Entry, Shape, Shape]) -> Read:
            entry, begin, along = source
            return Read(inputs.index(numbers[keys[entry]]), self.nodes[entry.node].worker, begin, along)

        found = [
            TransferPiece(piece.reader, piece.begin, piece.extent, tuple(map(read_from, piece.sources)))
            for piece in pieces
        ]
        return inputs, found
