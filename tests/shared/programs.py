"""Execution programs in the format of csrc/core/program/program.h, written by hand."""

import struct

import numpy as np

from tofu import _core
from tofu.program import NodeKind


class ProgramWriter:
    def __init__(self, workers):
        self.workers = workers
        self.nodes = []
        self.outputs = []  # (node, output), worker by worker for each result
        self.transit = []  # (node, output) that hold no shard

    def variable(self, tensor, worker, shape):
        return self.add(NodeKind.VARIABLE, tensor, worker, 0, [shape])

    def operator(self, operator, worker, inputs, shapes):
        return self.add(NodeKind.OPERATOR, operator, worker, 0, shapes, inputs)

    def fetch(self, tensor, worker, phase, shape, inputs, pieces, fill=0.0):
        return self.add(NodeKind.FETCH, tensor, worker, phase, [shape], inputs, pieces, fill)

    def add(self, kind, number, worker, phase, shapes, inputs=(), pieces=(), fill=0.0, begins=None):
        fill_bits = struct.unpack("<q", struct.pack("<d", fill))[0]
        data = [kind, number, worker, phase, fill_bits, len(shapes)]
        for shape in shapes:
            data += [len(shape), *shape]
        for begin in begins or [[0] * len(shape) for shape in shapes]:
            data += [len(begin), *begin]
        data += [len(inputs), *(number for entry in inputs for number in entry)]
        data += [len(pieces)]
        for begin, extent, sources in pieces:
            data += [len(begin), *begin, len(extent), *extent, len(sources)]
            for source, at, *along in sources:  # and, if it differs, the order of a source's dimensions
                named = along[0] if along else ()
                data += [source, len(at), *at, len(named), *named]
        self.nodes.append(data)
        return len(self.nodes) - 1

    def encode(self):
        data = [
            _core.PROGRAM_FORMAT,
            self.workers,
            len(self.nodes),
            *(number for node in self.nodes for number in node),
        ]
        for entries in (self.outputs, self.transit):
            data += [len(entries), *(number for entry in entries for number in entry)]
        return np.array(data, dtype=np.int64)
