"""A partitioner for the tests of this folder: every tensor is split along its first dimension, every operator by the batch.

Parameters are fetched whole, the workers' partial gradients are summed shard by shard. Operators must treat the batch's rows apart.
"""

import mxnet as mx
import numpy as np

from tests.nnvm.graphs import training_graph, wrap
from tests.shared.json_graph import bind
from tests.shared.programs import ProgramWriter
from tofu import _mxnet


def cut(extent, parts, part):
    return extent * part // parts, extent * (part + 1) // parts


class BatchSplit:
    """The execution graph of a symbol over k workers, and how whole arrays become its arguments and outputs."""

    def __init__(self, symbol, shapes, trained, k, changes=None):
        self.k = k
        self.batch = shapes["data"][0]
        self.changes = changes or {}
        self.training = training_graph(symbol, trained)
        handle = self.training.handle.value
        self.nodes = _mxnet.nodes(handle)
        variables = {node["name"] for node in self.nodes if node["op"] == "null"}
        known = {name: shape for name, shape in shapes.items() if name in variables}
        self.shapes, self.types = _mxnet.infer(handle, known, dict.fromkeys(known, 0))
        self.writer = ProgramWriter(k)
        self.place = {}  # (entry, worker) -> entry of the program
        self.fetched = {}
        for node in self.nodes:
            for worker in range(k):
                self._add_copy(node, worker)
        self.outputs = [self.nodes[n]["entry"] + i for n, i in _mxnet.outputs(handle)]
        for entry in self.outputs:
            for worker in range(k):
                self.writer.outputs.append(self._shard(entry, worker))
        self.symbol = self._build(handle)

    def _build(self, handle):
        names = [
            node["name"] if node["op"] == "null" else f"{node['name']}_output{i}"
            for node in self.nodes
            for i in range(node["num_outputs"])
        ]
        operators = [node["id"] for node in self.nodes]
        table = [self.changes.get(node["name"], {}) for node in self.nodes]
        rows = np.repeat(np.arange(len(table), dtype=np.int32)[:, None], self.k, axis=1)
        return wrap(
            _mxnet.build_execution_graph(handle, self.writer.encode(), operators, table, rows, names, self.types)
        )

    def is_batch(self, entry):
        return self.shapes[entry][0] == self.batch

    def shard_box(self, entry, worker):
        shape = self.shapes[entry]
        begin, end = cut(shape[0], self.k, worker)
        return (begin, *[0] * (len(shape) - 1)), (end - begin, *shape[1:])

    def _add_copy(self, node, worker):
        if node["op"] == "null":
            _, shape = self.shard_box(node["entry"], worker)
            self.place[node["entry"], worker] = (self.writer.variable(node["entry"], worker, shape), 0)
            return
        inputs = [self.nodes[n]["entry"] + i for n, i in node["inputs"]]
        entries = [node["entry"] + i for i in range(node["num_outputs"])]
        shapes = [self.shard_box(e, worker)[1] if self.is_batch(e) else self.shapes[e] for e in entries]
        variables = set(self.variable_entries().values())
        read = [
            self._whole(e, worker) if e in variables and not self.is_batch(e) else self.place[e, worker] for e in inputs
        ]
        made = self.writer.operator(node["id"], worker, read, shapes)
        for i, entry in enumerate(entries):
            self.place[entry, worker] = (made, i)

    def _whole(self, parameter, worker):
        """All shards of a parameter, on one worker."""
        if (parameter, worker) not in self.fetched:
            boxes = [self.shard_box(parameter, w) for w in range(self.k)]
            pieces = [
                (begin, extent, [(w, (0,) * len(begin))]) for w, (begin, extent) in enumerate(boxes) if extent[0] > 0
            ]
            sources = [self.place[parameter, w] for w in range(self.k)]
            shape = self.shapes[parameter]
            self.fetched[parameter, worker] = (self.writer.fetch(parameter, worker, 0, shape, sources, pieces), 0)
        return self.fetched[parameter, worker]

    def _shard(self, entry, worker):
        """A worker's shard of a result; of a gradient, the sum of all workers' parts of it."""
        if self.is_batch(entry):
            return self.place[entry, worker]
        begin, extent = self.shard_box(entry, worker)
        pieces = [((0,) * len(begin), extent, [(w, begin) for w in range(self.k)])]
        sources = [self.place[entry, w] for w in range(self.k)]
        return self.writer.fetch(entry, worker, 2, extent, sources, pieces), 0

    def variable_entries(self):
        return {node["name"]: node["entry"] for node in self.nodes if node["op"] == "null"}

    def bind(self):
        return bind(self.symbol, self.k)

    def scatter(self, executor, values):
        for name, value in values.items():
            for worker in range(self.k):
                begin, extent = self.shard_box(self.variable_entries()[name], worker)
                executor.arg_dict[f"{name}@{worker}"][:] = value[begin[0] : begin[0] + extent[0]]

    def gather(self, outputs):
        arrays = [array.asnumpy() for array in outputs]
        return [np.concatenate(arrays[i : i + self.k]) for i in range(0, len(arrays), self.k)]


def reference(symbol, values, trained, head_gradients=()):
    """Outputs and gradients of MXNet's executor on one device."""
    shapes = {name: value.shape for name, value in values.items()}
    requests = {name: "write" if name in trained else "null" for name in values}
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, **shapes)
    for name, value in values.items():
        executor.arg_dict[name][:] = value
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(g) for g in head_gradients])
    return [array.asnumpy() for array in [*executor.outputs, *(executor.grad_dict[name] for name in trained)]]
