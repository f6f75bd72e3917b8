"""Buffers of partitioned graphs: no two entries that are alive together share one, and none could be left out."""

import numpy as np
import pytest
from batch_split import BatchSplit
from graphs import arguments_of, mlp

from tofu import _mxnet
from tofu.check import find_shared_buffers


def split_mlp(k, layers=5):
    symbol = mlp(hidden=32, layers=layers, bias=True)
    _, shapes, trained = arguments_of(symbol, data=(24, 20))
    return BatchSplit(symbol, shapes, trained, k)


@pytest.mark.parametrize("k", [2, 3, 8])
def test_what_lives_together_lies_apart(k):
    split = split_mlp(k)
    assert find_shared_buffers(split.symbol, {}, {}) == []
    table = _mxnet.memory_entries(split.symbol.handle.value, {}, {})
    used = table["buffer"][table["buffer"] >= 0]
    assert len(np.unique(used)) < len(used)


def test_wrong_plans_are_found(monkeypatch):
    split = split_mlp(2)
    table = _mxnet.memory_entries(split.symbol.handle.value, {}, {})
    pooled = np.flatnonzero(table["buffer"] >= 0)
    wrong = {**table, "buffer": np.where(table["buffer"] >= 0, 0, table["buffer"])}
    monkeypatch.setattr(_mxnet, "memory_entries", lambda *_: wrong)
    problems = find_shared_buffers(split.symbol, {}, {})
    assert any("of another worker" in text for text in problems)
    assert any("is written into a buffer that still holds" in text for text in problems)
    longer = {**table, "last": table["last"].copy()}
    reused = next(row for row in pooled if (table["buffer"][pooled[pooled > row]] == table["buffer"][row]).any())
    longer["last"][reused] = len(table["nodes"])
    monkeypatch.setattr(_mxnet, "memory_entries", lambda *_: longer)
    name = table["nodes"][table["node"][reused]]
    assert any(name in text for text in find_shared_buffers(split.symbol, {}, {}))


@pytest.mark.parametrize("k", [2, 8])
def test_packed_to_the_peak(k):
    """Equal workers of a chain of layers: the buffers together are what is alive at the peak, to a few percent."""
    split = split_mlp(k, layers=12)
    table = _mxnet.memory_entries(split.symbol.handle.value, {}, {})
    plan = _mxnet.plan_memory(split.symbol.handle.value, {}, {})
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
    full = _mxnet.plan_memory(handle, {}, {})
    unordered = _mxnet.plan_memory(handle, {}, {}, keeps_order=False)
    assert all(unordered[g]["unshared"] == full[g]["unshared"] for g in full)
    again = _mxnet.plan_memory(handle, {}, {})
    assert again == full, "the graph itself keeps its order"
    assert _mxnet.plan_memory(handle, {}, {}, holds_transit=False) == full, "nothing here is marked as in transit"
    split.writer.transit = [(i, 0) for i, node in enumerate(split.writer.nodes) if node[0] == 2]
    marked = split._build(split.training.handle.value)
    counted = _mxnet.plan_memory(marked.handle.value, {}, {})
    lighter = _mxnet.plan_memory(marked.handle.value, {}, {}, holds_transit=False)
    for group in full:
        assert counted[group]["pool"] == full[group]["pool"]
        assert counted[group]["transit"] > 0
        assert lighter[group]["pool"] < full[group]["pool"]
