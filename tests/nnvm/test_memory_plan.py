import mxnet as mx
import numpy as np
import pytest

from tests.nnvm.graphs import arguments_of, emit, mlp
from tests.shared.allocation import allocated_bytes
from tests.shared.json_graph import JsonGraph, bind
from tofu import _mxnet


def needed(plan):
    return plan["arguments"] + plan["auxiliary"] + plan["pool"]


@pytest.mark.parametrize(("workers", "algorithm", "most"), [(2, "exact", 1.05), (8, "data-parallel", 1.1)])
def test_buffers_are_shared_and_packed_to_the_peak(workers, algorithm, most):
    """Workers of a chain of layers need little more than what is alive at the peak."""
    graph = emit(mlp(32, 12), workers, data=(24, 20), algorithm=algorithm)
    planned = _mxnet.PlannedGraph(graph.handle.value, {}, {})
    assert planned.problems() == []
    table, plan = planned.entries(), planned.memory()
    assert len(table["groups"]) == workers
    for number, group in enumerate(table["groups"]):
        rows = (table["group"] == number) & (table["buffer"] >= 0)
        assert len(np.unique(table["buffer"][rows])) < rows.sum()
        alive = []
        for at in range(len(table["nodes"])):
            now = rows & (table["node"] <= at) & (at <= table["last"])
            largest = {}
            for buffer, size in zip(table["buffer"][now], table["bytes"][now], strict=True):
                largest[buffer] = max(largest.get(buffer, 0), size)
            alive.append(sum(largest.values()))
        assert max(alive) <= plan[group]["pool"] <= most * max(alive)


def test_entries_in_transit_can_be_left_out():
    graph = emit(mlp(32, 5), 4, data=(24, 20))
    full, lighter = (
        _mxnet.PlannedGraph(graph.handle.value, {}, {}, holds_transit=holds).memory() for holds in (True, False)
    )
    for group in full:
        assert full[group]["transit"] > 0
        assert lighter[group]["pool"] < full[group]["pool"]


WHOLE = [((0,), (8,), [(0, (0,))])]  # copies eight elements


def test_an_entry_read_for_its_shape_frees_its_buffer():
    """The copies reuse the region's buffer, because the zeros read only its shape."""
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
def test_gradients_are_added_in_place_if_nobody_reads_the_first_later(is_late):
    """Another worker reads the first gradient before the second kernel adds to it, or afterwards."""
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


def test_buffers_of_odd_sizes():
    """MXNet's pools are multiples of four bytes."""
    graph = JsonGraph()
    data = graph.add("null", "data", group="w0", __shape__=(5,), __dtype__=0)
    symbol = graph.symbol(graph.add("Cast", "bytes", [data], "w0", dtype="uint8"))
    plan = _mxnet.PlannedGraph(symbol.handle.value, {}, {}).memory()["w0"]
    assert (plan["unshared"], plan["pool"]) == (5, 8)
    assert allocated_bytes(bind(symbol, {"w0": mx.cpu(0)}), 1) == [needed(plan)]


def test_memory_of_a_plain_graph_is_planned():
    symbol = mlp()
    names, shapes, _ = arguments_of(symbol, data=(16, 12))
    plan = _mxnet.PlannedGraph(symbol.handle.value, shapes, dict.fromkeys(names, 1)).memory()
    assert list(plan) == [""]
    executor = bind(symbol, types=dict.fromkeys(names, "float64"), **shapes)
    expected = sum(array.size * 8 for array in executor.arg_arrays)
    assert plan[""]["arguments"] == expected
    with pytest.raises(RuntimeError, match="the memory of data cannot be planned: its shape is None"):
        _mxnet.PlannedGraph(symbol.handle.value, {}, {}).memory()
