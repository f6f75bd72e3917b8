"""Runs the fetches of an execution program with NumPy.

Operators are simulated: what they should have got is checked, and their outputs are made up so that the parts come
together to known whole tensors.
"""

from itertools import groupby, product
from math import prod

import numpy as np

from tests.search.random_graphs import REPLICATE
from tofu import _core
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.program import NodeKind, OutputShards, Program

GARBAGE = 1e9  # what an operator's copy computes outside the tensor; nobody may read it


def read_program(spec, factors, code, requests):
    """The view of an encoded program of a graph. `requests`: (tensor, layout)."""
    outputs = tuple(OutputShards(tensor, tuple(layout or ())) for tensor, layout in requests)
    return Program(code, semantic_graph(spec), outputs, len(outputs), prod(factors), tuple(Phase))


def semantic_graph(spec):
    """The graph that a program's check reads."""
    produced = {written.tensor for operator in spec.operators for written in operator.written}
    tensors = tuple(
        Tensor(
            f"t{n}",
            tensor.shape,
            "float32",
            tensor.item_bytes,
            TensorKind.INTERMEDIATE if n in produced else TensorKind.PARAMETER,
        )
        for n, tensor in enumerate(spec.tensors)
    )
    operators = tuple(
        Operator(
            name=f"o{n}",
            op="any",
            attributes={},
            inputs=tuple(read.tensor for read in operator.reads),
            outputs=tuple(written.tensor for written in operator.written),
            phase=Phase(operator.phase),
        )
        for n, operator in enumerate(spec.operators)
    )
    return Graph(tensors, operators, tuple(spec.outputs))


def check_order(nodes):
    """Nodes come after all that they need; copies stand in the order of operators, between two fetches of one phase in that of workers."""
    for position, node in enumerate(nodes):
        assert all(n < position for n, _ in node.inputs)
    last = -1
    run_nodes = [node for node in nodes if node.kind is not NodeKind.VARIABLE]
    for (kind, _), run in groupby(run_nodes, lambda node: (node.kind, node.phase)):
        if kind is not NodeKind.OPERATOR:
            continue
        copies = [(node.worker, node.id) for node in run]
        assert copies == sorted(set(copies))
        assert all(operator >= last for _, operator in copies)
        last = max(operator for _, operator in copies)


def box_slices(begin, extent):
    return tuple(slice(b, b + e) for b, e in zip(begin, extent, strict=True))


def run_fetch(node, values):
    out = np.full(node.shapes[0], node.fill)
    written = np.zeros(node.shapes[0], int)
    for begin, extent, sources in node.pieces:
        assert sources
        assert all(e > 0 for e in extent)
        where = box_slices(begin, extent)
        assert out[where].shape == extent, "a piece lies inside the fetch"
        written[where] += 1
        out[where] = 0
        for one in sources:
            source, own = values[node.inputs[one.input]], one.extent(extent)
            assert all(s >= 0 and s + e <= n for s, e, n in zip(one.begin, own, source.shape, strict=True))
            out[where] += source[box_slices(one.begin, own)].reshape(extent)
    assert written.max(initial=0) <= 1, "pieces are disjoint"
    return out


class Runner:
    """Runs one plan's program and checks every input that an operator gets."""

    def __init__(self, spec, native, factors, operators, tensors, seed=0):
        self.spec, self.native, self.factors = spec, native, list(factors)
        self.operators, self.tensors = operators, tensors
        self.rng = np.random.default_rng(seed)
        self.whole = [self.rng.integers(1, 100, t.shape).astype(float) for t in spec.tensors]
        for operator in spec.operators:
            if operator.fetched:
                self.move_cells(operator)
        self.workers = list(product(*(range(f) for f in factors)))
        self.made = {}

    def move_cells(self, operator):
        """Operators that fetches may take the place of are not made up: their outputs are the sums of what is moved there."""
        for written in operator.written:
            self.whole[written.tensor][:] = 0
            for read in operator.reads:
                (to, target), (origin, source) = (self.with_absent(one) for one in (written, read))
                begin = [b[1] - a[1] for b, a in zip(to, origin, strict=True)]
                box = [(-b, e - b) for b, e in zip(begin, target.shape, strict=True)]
                self.whole[written.tensor] += self.cut(source, box, 0).reshape(self.whole[written.tensor].shape)

    def with_absent(self, access):
        """The rows and the whole of a tensor, with the dimension that it lacks."""
        rows, whole = list(access.rows), self.whole[access.tensor]
        if access.absent is None:
            return rows, whole
        at, absent = access.absent
        return [*rows[:at], absent, *rows[at:]], np.expand_dims(whole, at)

    def region(self, rows, tensor, operator, worker):
        """(begin, end) of every dimension, from the axis intervals of the core."""
        choice = self.operators[operator]
        axes = _core.worker_boxes(self.native, self.factors, "operator", operator, list(choice))[worker]
        box = []
        for (terms, lower, upper), extent in zip(rows, self.spec.tensors[tensor].shape, strict=True):
            if any(axis in choice for axis, _ in terms):
                ends = [(c * axes[a][0], c * (axes[a][1] - 1)) for a, c in terms]
                box.append((lower + sum(map(min, ends)), upper + sum(map(max, ends))))
            else:
                box.append((0, extent))
        return [(int(b), int(e)) for b, e in box]

    def cut(self, whole, box, outside):
        """The cells of a box, `outside` where it reaches out of the tensor."""
        out = np.full([e - b for b, e in box], float(outside))
        inner = [(max(b, 0), min(e, n)) for (b, e), n in zip(box, whole.shape, strict=True)]
        if all(b < e for b, e in inner):
            target = tuple(slice(b - o, e - o) for (b, e), (o, _) in zip(inner, box, strict=True))
            out[target] = whole[tuple(slice(b, e) for b, e in inner)]
        return out

    def expect_input(self, position, read, worker):
        box = self.region(read.rows, read.tensor, position, worker)
        digits = self.workers[worker]
        if any(a in read.addend_axes and digits[s] for s, a in enumerate(self.operators[position])):
            return np.zeros([e - b for b, e in box])
        return self.cut(self.whole[read.tensor], box, read.fill)

    def make_outputs(self, position):
        """Parts of all workers: within workers of equal REPLICATE digits they sum to the whole, cell by cell."""
        operator = self.spec.operators[position]
        for index, written in enumerate(operator.written):
            fates = [REPLICATE if a < 0 else written.combine[a] for a in self.operators[position]]
            rest = {}
            for worker in reversed(range(len(self.workers))):
                group = tuple(d for d, fate in zip(self.workers[worker], fates, strict=True) if fate == REPLICATE)
                rest.setdefault(group, []).append(worker)
            for members in rest.values():
                self.share_out(position, index, written, members)

    def share_out(self, position, index, written, members):
        whole = self.whole[written.tensor]
        remaining, holders = whole.copy(), np.zeros(whole.shape, int)
        boxes = {w: self.region(written.rows, written.tensor, position, w) for w in members}
        inner = {w: box_slices_inside(boxes[w], whole.shape) for w in members}
        for worker in members:
            holders[inner[worker]] += 1
        assert holders.min(initial=1) >= 1, "the parts cover the tensor"
        for worker in members:
            where = inner[worker]
            part = np.where(holders[where] > 1, self.rng.integers(-50, 50, holders[where].shape), remaining[where])
            remaining[where] -= part
            holders[where] -= 1
            padded = np.zeros(whole.shape)
            padded[where] = part
            self.made[position, index, worker] = self.cut(padded, boxes[worker], GARBAGE)

    def run(self, nodes):
        values = {}
        for position, node in enumerate(nodes):
            if node.kind is NodeKind.VARIABLE:
                box = _core.shards(self.native, self.factors, node.id, list(self.tensors[node.id]))[node.worker]
                values[position, 0] = self.cut(self.whole[node.id], box.tolist(), 0)
                assert self.spec.tensors[node.id]
            elif node.kind is NodeKind.FETCH:
                values[position, 0] = run_fetch(node, values)
            else:
                self.run_operator(position, node, values)
            for index, shape in enumerate(node.shapes):
                assert values[position, index].shape == shape
        return values

    def run_operator(self, position, node, values):
        operator = self.spec.operators[node.id]
        assert node.phase == operator.phase
        for entry, read in zip(node.inputs, operator.reads, strict=True):
            expected = self.expect_input(node.id, read, node.worker)
            assert values[entry].shape == expected.shape
            if read.is_read:
                np.testing.assert_array_equal(values[entry], expected)
        if (node.id, 0, node.worker) not in self.made:
            self.make_outputs(node.id)
        for index in range(len(operator.written)):
            values[position, index] = self.made[node.id, index, node.worker]

    def check_shards(self, nodes, transit, values):
        """Whatever is read and not in transit is the worker's shard of its tensor."""
        for entry in {entry for node in nodes for entry in node.inputs} - transit:
            node = nodes[entry[0]]
            tensor = (
                self.spec.operators[node.id].written[entry[1]].tensor if node.kind is NodeKind.OPERATOR else node.id
            )
            box = _core.shards(self.native, self.factors, tensor, list(self.tensors[tensor]))[node.worker]
            np.testing.assert_array_equal(values[entry], self.cut(self.whole[tensor], box.tolist(), 0))

    def check_outputs(self, requests, entries, values):
        """`requests`: (tensor, layout or None); every worker's entry is its shard in that layout.

        What follows are nodes that no other one reads.
        """
        entries = iter(entries)
        for tensor, layout in requests:
            wanted = list(self.tensors[tensor] if layout is None else layout)
            boxes = _core.shards(self.native, self.factors, tensor, wanted)
            for worker in range(len(self.workers)):
                expected = self.cut(self.whole[tensor], boxes[worker].tolist(), 0)
                np.testing.assert_array_equal(values[next(entries)], expected)
        return list(entries)


def box_slices_inside(box, shape):
    return tuple(slice(max(b, 0), max(min(e, n), max(b, 0))) for (b, e), n in zip(box, shape, strict=True))
