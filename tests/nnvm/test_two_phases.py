"""The forward part of a graph runs alone, then the rest; neighbouring nodes of a worker run as one operation."""

import json

import mxnet as mx
import pytest

import tofu
from tests.nnvm.graphs import mlp
from tests.shared.json_graph import JsonGraph, bind
from tofu import _mxnet
from tofu.mxnet.check.execution import count_remote_bytes


def test_neighbours_of_one_worker_run_as_one_operation(tmp_path):
    """Nodes of two workers run as two operations, even without a fetch between them."""
    graph = JsonGraph()
    heads = []
    for group in ("w0", "w1"):
        x = graph.add("null", f"x@{group}", group=group, __shape__=(3,), __dtype__=0)
        heads.append(graph.add("sin", f"sin@{group}", [graph.add("relu", f"relu@{group}", [x], group)], group))
    symbol = graph.symbol(*heads)
    executor = bind(symbol, {"w0": mx.cpu(0), "w1": mx.cpu(1)})
    _mxnet.bulk_nodes(executor.handle.value, symbol.handle.value)
    mx.profiler.set_config(profile_symbolic=True, aggregate_stats=True, filename=str(tmp_path / "profile.json"))
    mx.profiler.set_state("run")
    executor.forward(is_train=True)
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    operations = json.loads(mx.profiler.dumps(reset=True, format="json"))["Time"]["operator"]
    assert {name: times["Count"] for name, times in operations.items()} == {"[relu,sin]": 2}


def test_the_forward_part_runs_only_forward_nodes():
    executor = tofu.bind(tofu.partition(mlp(), 2), data=(8, 12))
    symbol = executor.partition.training.symbol
    nodes = _mxnet.nodes(symbol.handle.value)
    forward = nodes[: _mxnet.boundary(symbol.handle.value, 2)]
    assert not [node["name"] for node in forward if "backward" in node["name"]]
    _mxnet.reset_counters()
    executor.forward(is_train=True)
    mx.nd.waitall()
    assert _mxnet.counters()["launches"] == sum(node["op"] == "_tofu_multi_fetch" for node in forward)
    executor.backward()
    mx.nd.waitall()
    assert _mxnet.counters()["bytes_read_remote"] == count_remote_bytes(symbol) > 0


def test_boundary_counts_outputs():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    symbol = mx.sym.Group([mx.sym.tanh(net), net])
    assert _mxnet.boundary(symbol.handle.value, 0) == 0
    assert _mxnet.boundary(symbol.handle.value, 1) == len(_mxnet.nodes(symbol.handle.value))
    with pytest.raises(RuntimeError) as error:
        _mxnet.boundary(symbol.handle.value, 3)
    assert "the symbol has 2 outputs, not 3" in str(error.value)
    executor = symbol.simple_bind(mx.cpu(), data=(2, 5))
    with pytest.raises(RuntimeError, match=r"nodes \[4, 2\) are no part of a graph"):
        _mxnet.partial_forward(executor.handle.value, True, 4, 2)
