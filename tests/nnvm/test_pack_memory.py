"""Buffers of partitioned graphs: no two entries that are alive together share one, and none could be left out."""

import numpy as np
import pytest

from tests.nnvm.batch_split import BatchSplit
from tests.nnvm.graphs import arguments_of, mlp
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
