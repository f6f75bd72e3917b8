"""Graphs with fetches get no copies between devices; other graphs get MXNet's."""

import mxnet as mx
import numpy as np
import pytest

from tests.nnvm.graphs import count_copies
from tests.shared.json_graph import JsonGraph, bind

WHOLE = [((0,), (2,), [(0, (0,)), (1, (0,))])]


def fetch_graph(group="d0"):
    graph = JsonGraph()
    inputs = [graph.add("null", name, group=f"d{i}", __shape__=(2,)) for i, name in enumerate("ab")]
    return graph, graph.fetch("sum", inputs, (2,), WHOLE, group)


def contexts(n):
    return {f"d{i}": mx.cpu(i) for i in range(n)}


def run_plain_graph():
    a, b = (mx.sym.Variable(name, attr={"__ctx_group__": f"d{i}"}) for i, name in enumerate("ab"))
    with mx.AttrScope(ctx_group="d0"):
        c = mx.sym.elemwise_mul(a, b, name="c")
    executor = c.simple_bind(mx.cpu(), group2ctx=contexts(2), grad_req="null", a=(2,), b=(2,))
    executor.arg_dict["a"][:] = 1
    executor.arg_dict["b"][:] = 5
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [5, 5])
    return count_copies(executor)


def test_both_kinds_of_graph_in_one_process():
    assert run_plain_graph() > 0
    graph, head = fetch_graph()
    executor = bind(graph.symbol(head), contexts(2))
    executor.arg_dict["a"][:] = 1
    executor.arg_dict["b"][:] = 5
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [6, 6])
    assert executor.arg_dict["b"].context == mx.cpu(1)
    assert count_copies(executor) == 0
    assert run_plain_graph() > 0


def test_without_contexts_all_workers_share_one_device():
    graph, head = fetch_graph()
    executor = bind(graph.symbol(head))
    executor.arg_dict["a"][:] = 1
    executor.arg_dict["b"][:] = 5
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [6, 6])


@pytest.mark.parametrize(
    ("reader", "devices", "message"),
    [
        ("d1", 2, "sum on another device without a fetch"),
        (None, 2, r"belongs to no worker \(it has no attribute __ctx_group__\)"),
        ("d0", 1, "group2ctx has no context for d1, the worker of b"),
    ],
)
def test_nodes_without_a_fetch_worker_or_context_are_refused(reader, devices, message):
    graph, head = fetch_graph()
    with pytest.raises(RuntimeError, match=message):
        bind(graph.symbol(graph.add("_copy", "other", [head], reader)), contexts(devices))


def test_arguments_have_to_be_on_their_worker():
    graph, head = fetch_graph()
    arrays = {"a": mx.nd.ones((2,), mx.cpu(0)), "b": mx.nd.ones((2,), mx.cpu(0))}
    with pytest.raises(RuntimeError, match="b was bound to a context that is not its worker's, d1"):
        graph.symbol(head).bind(mx.cpu(1000), args=arrays, grad_req="null", group2ctx=contexts(2))
