"""Programs as instructions that all workers run together (SPMD), for backends with collectives.

A `Program` lists the nodes of each worker. Here, one instruction computes an operator on all workers, and a *value* is
one array on each worker. A *transfer* is an instruction that computes a value from data of all workers.

    values     4: x {0:2} {2:4}    5: x {0:4} {0:4}
    transfer   5 = 4 by pieces {reader 0, owner 1, 2:4} {reader 1, owner 0, 0:2} and each worker's own part
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias

from tofu.graph import Graph

Box: TypeAlias = tuple[tuple[int, int], ...]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class ProgramValue:
    """One array on each worker: a shard of a tensor, a larger region, or a partial result.

    `boxes` has the region of each worker's array within the tensor.
    """

    tensor: int
    boxes: tuple[Box, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the workers' arrays. If shapes differ, the greatest length of each dimension."""
        return tuple(max(end - begin for begin, end in bounds) for bounds in zip(*self.boxes, strict=True))

    @cached_property
    def is_even(self) -> bool:
        """True if all workers' arrays have the same shape."""
        return len({tuple(end - begin for begin, end in box) for box in self.boxes}) == 1


class Compute(NamedTuple):
    """Instruction to compute an operator. `inputs` and `outputs` are indices into `Lockstep.values`."""

    operator: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Read(NamedTuple):
    """A region that a worker reads from worker `owner`, in input number `input` of a transfer.

    It begins at `begin`. Its dimension d corresponds to dimension `along[d]` of the reader's array, or to none if -1.
    """

    input: int
    owner: int
    begin: Shape
    along: Shape


class TransferPiece(NamedTuple):
    """A region of an array on worker `reader`. It becomes the sum of the regions in `reads`."""

    reader: int
    begin: Shape
    extent: Shape
    reads: tuple[Read, ...]

    @property
    def remote_elements(self) -> int:
        """The number of elements that the reader receives from other workers."""
        return prod(self.extent) * sum(read.owner != self.reader for read in self.reads)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The regions that workers read from each other in a transfer.

    First, each worker reads `pieces`, and sets all other elements to `fill`. Then it reads `copies`, which are sums
    that other workers have just computed.

    `readers` are the `Program.readers`.
    """

    pieces: tuple[TransferPiece, ...]
    copies: tuple[TransferPiece, ...] = ()
    fill: float = 0.0
    reducer: str = "Sum"
    readers: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def remote_elements(self) -> int:
        """The number of elements that workers receive from each other."""
        pieces = (*self.pieces, *self.copies)
        return sum(piece.remote_elements * self.readers.get(piece.reader, 1) for piece in pieces)

    @cached_property
    def is_sum(self) -> bool:
        """True if the transfer reduces partial results."""
        return any(len(piece.reads) > 1 for piece in self.pieces)


class Transfer(NamedTuple):
    """Instruction to assemble the value `output` from regions of the values `inputs` on other workers."""

    output: int
    inputs: tuple[int, ...]
    pattern: Pattern


@dataclass(frozen=True)
class Lockstep:
    """A program that all workers execute together.

    Attributes
    ----------
    factors
        The prime factors of the number of workers. The workers form a grid (mesh) with an axis for each factor.
    values
        All values. Other attributes refer to them by position.
    shards
        `values[shards[t]]` has the shards of tensor t.
    computes
        The instruction of each operator. Operators that only transfer data are left out.
    transfers
        The transfer that computes each value. Values without a transfer are arguments or outputs of operators.
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
            transfer.pattern.remote_elements * self.graph.tensors[self.values[output].tensor].moved_item_bytes
            for output, transfer in self.transfers.items()
        )

    def find_kind(self, transfer: Transfer) -> Hashable:
        """Return a key that is equal for transfers of the same regions between the same workers."""
        output, inputs = self.values[transfer.output], [self.values[number] for number in transfer.inputs]
        sources = tuple((value.tensor == output.tensor, value.boxes) for value in inputs)
        return transfer.pattern, self.graph.tensors[output.tensor].shape, output.boxes, sources

    def find_transfer_sources(self, value: int) -> Iterator[int]:
        """Yield the values that one or more transfers combine into `value`.

        Yield only `value` if no transfer computes it.
        """
        transfer = self.transfers.get(value)
        if transfer is None:
            yield value
        else:
            for input_value in transfer.inputs:
                yield from self.find_transfer_sources(input_value)
