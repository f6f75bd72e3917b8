"""Execution programs in the format of csrc/core/program/program.h: written by hand, and read."""

import struct
from dataclasses import dataclass

import numpy as np

PROGRAM_FORMAT = 0x746F667532
VARIABLE, OPERATOR, FETCH = range(3)


class ProgramWriter:
    """Nodes in executable order; each method returns the new node's position."""

    def __init__(self, workers):
        self.workers = workers
        self.nodes = []
        self.outputs = []  # (node, output), worker by worker for each result
        self.transit = []  # (node, output) that hold no shard

    def variable(self, tensor, worker, shape):
        return self.add(VARIABLE, tensor, worker, 0, [shape])

    def operator(self, operator, worker, inputs, shapes):
        return self.add(OPERATOR, operator, worker, 0, shapes, inputs)

    def fetch(self, tensor, worker, phase, shape, inputs, pieces, fill=0.0):
        return self.add(FETCH, tensor, worker, phase, [shape], inputs, pieces, fill)

    def add(self, kind, number, worker, phase, shapes, inputs=(), pieces=(), fill=0.0):
        """A node of any kind."""
        fill_bits = struct.unpack("<q", struct.pack("<d", fill))[0]
        data = [kind, number, worker, phase, fill_bits, len(shapes)]
        for shape in shapes:
            data += [len(shape), *shape]
        data += [len(inputs), *(number for entry in inputs for number in entry)]
        data += [len(pieces)]
        for begin, extent, sources in pieces:
            data += [len(begin), *begin, len(extent), *extent, len(sources)]
            for source, at in sources:
                data += [source, len(at), *at]
        self.nodes.append(data)
        return len(self.nodes) - 1

    def encode(self):
        data = [PROGRAM_FORMAT, self.workers, len(self.nodes), *(number for node in self.nodes for number in node)]
        for entries in (self.outputs, self.transit):
            data += [len(entries), *(number for entry in entries for number in entry)]
        return np.array(data, dtype=np.int64)


@dataclass
class Node:
    """One node of a program that was read. `id` is that of its tensor, or for an operator its own."""

    kind: int
    id: int
    worker: int
    phase: int
    fill: float
    shapes: list
    inputs: list
    pieces: list  # (begin, extent, [(input, source begin)])


def decode(data):
    """(workers, nodes, outputs, entries in transit) of an encoded program."""
    numbers = iter(data.tolist())

    def take():
        return next(numbers)

    def vector():
        return tuple(take() for _ in range(take()))

    def entries():
        return [(take(), take()) for _ in range(take())]

    def piece():
        return vector(), vector(), [(take(), vector()) for _ in range(take())]

    def node():
        head = [take() for _ in range(4)]
        fill = struct.unpack("<d", struct.pack("<q", take()))[0]
        shapes = [vector() for _ in range(take())]
        return Node(*head, fill, shapes, entries(), [piece() for _ in range(take())])

    assert take() == PROGRAM_FORMAT
    workers = take()
    nodes = [node() for _ in range(take())]
    outputs = entries()
    transit = entries()
    assert next(numbers, None) is None
    assert len(set(transit)) == len(transit)
    return workers, nodes, outputs, set(transit)
