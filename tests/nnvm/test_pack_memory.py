"""Buffers of partitioned graphs: no two entries that are alive together share one, and none could be left out."""

import numpy as np
import pytest

from tests.nnvm.batch_split import BatchSplit
from tests.nnvm.graphs import arguments_of, mlp
from tests.shared.json_graph import JsonGraph
from tofu import _mxnet


def split_mlp(k, layers=5):
    symbol = mlp(hidden=32, layers=layers, bias=True)
    _, shapes, trained = arguments_of(symbol, data=(24, 20))
    return BatchSplit(symbol, shapes, trained, k)


@pytest.mark.parametrize("k", [2, 3, 8])
def test_what_lives_together_lies_apart(k):
    split = split_mlp(k)
    planned = _mxnet.PlannedGraph(split.symbol.handle.value, {}, {})
    assert planned.problems() == []
    table = planned.entries()
    used = table["buffer"][table["buffer"] >= 0]
    assert len(np.unique(used)) < len(used)


@pytest.mark.parametrize("k", [2, 8])
def test_packed_to_the_peak(k):
    """Equal workers of a chain of layers: the buffers together are what is alive at the peak, to a few percent."""
    split = split_mlp(k, layers=12)
    table = _mxnet.PlannedGraph(split.symbol.handle.value, {}, {}).entries()
    plan = _mxnet.PlannedGraph(split.symbol.handle.value, {}, {}).memory()
    assert len(table["groups"]) == k
    for number, group in enumerate(table["groups"]):
        rows = (table["group"] == number) & (table["buffer"] >= 0)
        alive = []
        for at in range(len(table["nodes"])):
            now = rows & (table["node"] <= at) & (at <= table["last"])
            largest = {}
            for buffer, size in zip(table["buffer"][now], table["bytes"][now], strict=True):
                largest[buffer] = max(largest.get(buffer, 0), size)
            alive.append(sum(largest.values()))
        assert max(alive) <= plan[group]["pool"] <= 1.05 * max(alive)


def test_without_order_or_transit():
    split = split_mlp(4)
    handle = split.symbol.handle.value
    full = _mxnet.PlannedGraph(handle, {}, {}).memory()
    unordered = _mxnet.PlannedGraph(handle, {}, {}, keeps_order=False).memory()
    assert all(unordered[g]["unshared"] == full[g]["unshared"] for g in full)
    again = _mxnet.PlannedGraph(handle, {}, {}).memory()
    assert again == full, "the graph itself keeps its order"
    assert _mxnet.PlannedGraph(handle, {}, {}, holds_transit=False).memory() == full, "nothing here is in transit"
    split.writer.transit = [(i, 0) for i, node in enumerate(split.writer.nodes) if node[0] == 2]
    marked = split._build(split.training.handle.value)
    counted = _mxnet.PlannedGraph(marked.handle.value, {}, {}).memory()
    lighter = _mxnet.PlannedGraph(marked.handle.value, {}, {}, holds_transit=False).memory()
    for group in full:
        assert counted[group]["pool"] == full[group]["pool"]
        assert counted[group]["transit"] > 0
        assert lighter[group]["pool"] < full[group]["pool"]


WHOLE = [((0,), (8,), [(0, (0,))])]  # the pieces of a fetch that copies eight cells


def test_what_is_read_for_its_shape_alone_leaves_its_buffer():
    """The zeros lie in the buffer of the one cell, and the copies of that where the region was whose shape the zeros have."""
    graph = JsonGraph()
    x = graph.add("null", "x", group="w0", __shape__=(8,), __dtype__=0)
    region = graph.fetch("region", [x], (8,), WHOLE, "w1", dtype=0)
    total = graph.add("sum", "total", [region], "w1")
    copies = graph.add("tile", "copies", [total], "w1", reps=(8,))
    zeros = graph.add("zeros_like", "zeros", [region], "w1")
    symbol = graph.symbol(graph.add("elemwise_add", "result", [copies, zeros], "w1"))
    planned = _mxnet.PlannedGraph(symbol.handle.value, {}, {})
    assert planned.problems() == []
    table = planned.entries()
    assert table["last"][table["nodes"].index("region")] == table["nodes"].index("total")
    assert planned.memory()["w1"]["pool"] == 2 * 8 * 4


@pytest.mark.parametrize("is_late", [False, True])
def test_gradients_are_added_where_nobody_reads_the_first_one_afterwards(is_late):
    """Another worker reads the first gradient before the kernel of the second one could add to it, or between that and the sum."""
    graph = JsonGraph()
    x = graph.add("null", "x", group="w0", __shape__=(8,), __dtype__=0)
    first = graph.add("sin", "first", [x], "w0")
    if is_late:
        second = graph.add("cos", "second", [x], "w0")
        reader = graph.fetch("reader", [first], (8,), WHOLE, "w1", dtype=0, after=[second])
        total = graph.add("_grad_add", "total", [first, second], "w0", after=[reader])
    else:
        reader = graph.fetch("reader", [first], (8,), WHOLE, "w1", dtype=0)
        second = graph.add("cos", "second", [x], "w0", after=[reader])
        total = graph.add("_grad_add", "total", [first, second], "w0")
    symbol = graph.symbol(total, reader)
    planned = _mxnet.PlannedGraph(symbol.handle.value, {}, {})
    assert planned.problems() == []
    table = planned.entries()
    assert table["nodes"] == ["x", "first", *(("second", "reader") if is_late else ("reader", "second")), "total"]
    buffers = dict(zip(table["nodes"], table["buffer"], strict=True))
    assert (buffers["total"] == buffers["first"]) != is_late
