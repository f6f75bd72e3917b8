"""The forward part of a graph runs alone, and the rest later, with head gradients made in between."""

import json

import mxnet as mx
import numpy as np
import pytest

from tests.nnvm.batch_split import BatchSplit, reference
from tests.nnvm.graphs import arguments_of, random_arguments
from tests.shared.json_graph import JsonGraph, bind
from tofu import _mxnet
from tofu.mxnet.check import count_traffic


def network():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc0")
    x = mx.sym.Activation(x, act_type="tanh", name="act")
    return mx.sym.Group([mx.sym.FullyConnected(x, num_hidden=4, name="fc1"), x])


@pytest.mark.parametrize("bulks", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_head_gradients_are_computed_from_outputs(k, bulks):
    """The same if neighbouring nodes run as one operation, also where such an operation would cross the boundary."""
    symbol = network()
    _, shapes, trained = arguments_of(symbol, data=(8, 5))
    output_shapes = symbol.infer_shape(data=(8, 5))[1]
    heads = {f"_head_grad_{i}": shape for i, shape in enumerate(output_shapes)}
    split = BatchSplit(symbol, shapes | heads, trained, k)
    executor = split.bind()
    if bulks:
        _mxnet.bulk_nodes(executor.handle.value, split.symbol.handle.value)
    boundary = _mxnet.boundary(split.symbol.handle.value, 2 * k)
    last = len(_mxnet.nodes(split.symbol.handle.value))
    assert 0 < boundary < last
    for seed in range(3):
        values = random_arguments(shapes, seed)
        split.scatter(executor, values)
        _mxnet.partial_forward(executor.handle.value, True, 0, boundary)
        outputs = split.gather(executor.outputs[: 2 * k])
        gradients = [np.sin(3 * output) for output in outputs]
        split.scatter(executor, {f"_head_grad_{i}": g for i, g in enumerate(gradients)})
        _mxnet.partial_forward(executor.handle.value, True, boundary, last if seed else -1)
        found = split.gather(executor.outputs)
        expected = reference(symbol, values, trained, gradients)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_neighbours_of_one_worker_run_as_one_operation(tmp_path):
    """And those of two workers do not, though no fetch is between them."""
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


def test_the_forward_part_runs_nothing_of_the_backward_part():
    symbol = network()
    _, shapes, trained = arguments_of(symbol, data=(8, 5))
    heads = {f"_head_grad_{i}": shape for i, shape in enumerate(symbol.infer_shape(data=(8, 5))[1])}
    split = BatchSplit(symbol, shapes | heads, trained, 2)
    executor = split.bind()
    nodes = _mxnet.nodes(split.symbol.handle.value)
    boundary = _mxnet.boundary(split.symbol.handle.value, 4)
    for node in nodes[:boundary]:
        assert "backward" not in node["name"]
    fetches = sum(node["op"] == "_tofu_multi_fetch" for node in nodes[:boundary])
    _mxnet.reset_counters()
    _mxnet.partial_forward(executor.handle.value, True, 0, boundary)
    mx.nd.waitall()
    assert _mxnet.counters()["launches"] == fetches


def test_counts_bytes_by_geometry():
    symbol = network()
    _, shapes, trained = arguments_of(symbol, data=(8, 5))
    heads = {f"_head_grad_{i}": shape for i, shape in enumerate(symbol.infer_shape(data=(8, 5))[1])}
    split = BatchSplit(symbol, shapes | heads, trained, 2)
    traffic = count_traffic(split.symbol)
    executor = split.bind()
    for _ in range(2):
        _mxnet.reset_counters()
        executor.forward(is_train=True)
        mx.nd.waitall()
        counters = _mxnet.counters()
        assert counters["bytes_read_remote"] == traffic.remote_bytes
        assert counters["bytes_read_local"] == traffic.local_bytes
    # Each worker reads the other half of every parameter, and the other worker's part of every gradient.
    parameters = sum(int(np.prod(shapes[name])) for name in trained)
    assert traffic.remote_bytes == 2 * 2 * 4 * parameters // 2


def test_boundary_counts_outputs():
    symbol = network()
    assert _mxnet.boundary(symbol.handle.value, 0) == 0
    assert _mxnet.boundary(symbol.handle.value, 1) == len(_mxnet.nodes(symbol.handle.value))
    with pytest.raises(RuntimeError) as error:
        _mxnet.boundary(symbol.handle.value, 3)
    assert "the symbol has 2 outputs, not 3" in str(error.value)
    executor = symbol.simple_bind(mx.cpu(), data=(2, 5))
    with pytest.raises(RuntimeError, match=r"nodes \[4, 2\) are no part of a graph"):
        _mxnet.partial_forward(executor.handle.value, True, 4, 2)


def test_array_versions_count_writes():
    array = mx.nd.zeros((3,))
    before = _mxnet.array_version(array.handle.value)
    assert _mxnet.array_version(array.handle.value) == before
    array[:] = 1
    after = _mxnet.array_version(array.handle.value)
    assert after > before
    array.asnumpy()
    (array + 1).wait_to_read()
    assert _mxnet.array_version(array.handle.value) == after
