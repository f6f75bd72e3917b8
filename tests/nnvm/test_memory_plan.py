"""What the planner says is what MXNet allocates, byte for byte."""

import mxnet as mx
import pytest

from tests.nnvm.batch_split import BatchSplit
from tests.nnvm.graphs import arguments_of, mlp
from tests.shared.allocation import allocated_bytes
from tests.shared.json_graph import JsonGraph, bind
from tofu import _mxnet


def needed(plan):
    return plan["arguments"] + plan["auxiliary"] + plan["pool"]


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@pytest.mark.parametrize("bias", [False, True])
def test_planned_is_allocated(k, bias):
    symbol = mlp(hidden=64, layers=4, bias=bias)
    _, shapes, trained = arguments_of(symbol, data=(32, 48))
    split = BatchSplit(symbol, shapes, trained, k)
    plan = _mxnet.PlannedGraph(split.symbol.handle.value, {}, {}).memory()
    assert list(plan) == [f"tofu_worker_{w}" for w in range(k)]
    executor = split.bind()
    assert allocated_bytes(executor, k) == [needed(plan[f"tofu_worker_{w}"]) for w in range(k)]
    for worker in plan.values():
        assert 0 < worker["pool"] < worker["unshared"]


def test_buffers_of_odd_sizes():
    """MXNet's pools hold whole words of four bytes."""
    graph = JsonGraph()
    data = graph.add("null", "data", group="w0", __shape__=(5,), __dtype__=0)
    symbol = graph.symbol(graph.add("Cast", "bytes", [data], "w0", dtype="uint8"))
    plan = _mxnet.PlannedGraph(symbol.handle.value, {}, {}).memory()["w0"]
    assert (plan["unshared"], plan["pool"]) == (5, 8)
    assert allocated_bytes(bind(symbol, {"w0": mx.cpu(0)}), 1) == [needed(plan)]


def test_plans_any_graph():
    symbol = mlp()
    names, shapes, _ = arguments_of(symbol, data=(16, 12))
    plan = _mxnet.PlannedGraph(symbol.handle.value, shapes, dict.fromkeys(names, 1)).memory()
    assert list(plan) == [""]
    executor = bind(symbol, types=dict.fromkeys(names, "float64"), **shapes)
    expected = sum(array.size * 8 for array in executor.arg_arrays)
    assert plan[""]["arguments"] == expected
    with pytest.raises(RuntimeError, match="the memory of data cannot be planned: its shape is None"):
        _mxnet.PlannedGraph(symbol.handle.value, {}, {}).memory()
