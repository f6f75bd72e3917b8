from itertools import pairwise

import mxnet as mx
import numpy as np
import pytest

from tests.nnvm.graphs import cnn, emit, mlp, training_graph
from tests.shared.programs import ProgramWriter
from tofu import _mxnet


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize(("build", "data"), [(mlp, (19, 12)), (cnn, (9, 3, 8, 8))])
def test_one_chain_orders_all_nodes(build, data, workers):
    """Each node reads the one before it or waits for it, so every walk over the graph meets the program's order."""
    graph = emit(build(), workers, data=data)
    nodes = [node for node in _mxnet.nodes(graph.handle.value) if node["op"] != "null"]
    for before, node in pairwise(nodes):
        assert before["id"] in {*node["control_deps"], *(producer for producer, _ in node["inputs"])}


def test_gradient_sums_of_one_name_are_distinguished():
    net = mx.sym.Variable("data")
    for i in range(2):
        net = mx.sym.FullyConnected(net, num_hidden=6, name=f"fc{i}")
        net = sum((mx.sym.Activation(net, act_type="tanh", name=f"act{i}{j}") for j in range(3)), net)
    graph = emit(mx.sym.SoftmaxOutput(net, name="softmax"), 2, data=(6, 4))
    sums = {node["name"] for node in _mxnet.nodes(graph.handle.value) if node["name"].startswith("sum_grad")}
    assert {name for name in sums if "#" not in name} == {"sum_grad@0", "sum_grad@1", "sum_grad~2@0", "sum_grad~2@1"}


def build_one(symbol, writer, tensor_names, **changed):
    training = training_graph(symbol, [])
    n = len(_mxnet.nodes(training.handle.value))
    given = {
        "operator_nodes": list(range(n)),
        "attributes": [],
        "attribute_index": np.full((n, writer.workers), -1, np.int32),
        "tensor_names": tensor_names,
        "tensor_dtypes": [0] * len(tensor_names),
        "variables": [],
    }
    return _mxnet.ExecutionGraphBuilder(training.handle.value, **(given | changed)).build(writer.encode())


def test_programs_of_another_graph_are_refused():
    symbol = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    names = ["data", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var", "o0", "o1", "o2"]
    writer = ProgramWriter(1)
    inputs = [(writer.variable(t, 0, (2, 3) if t == 0 else (3,)), 0) for t in range(5)]
    inputs[3] = (writer.fetch(3, 0, 0, (3,), [inputs[3]], [((0,), (3,), [(0, (0,))])]), 0)
    writer.outputs = [(writer.operator(5, 0, inputs, [(2, 3), (3,), (3,)]), 0)]
    with pytest.raises(RuntimeError) as error:
        build_one(symbol, writer, names)
    assert str(error.value) == (
        "bn@0 changes its input 3, which is a fetched copy: the state has to be split like the operator"
    )
    with pytest.raises(RuntimeError, match="no input of the training graph is called x"):
        build_one(symbol, writer, ["x", *names[1:]])
    with pytest.raises(RuntimeError, match="operator 5 of the program is not in the training graph"):
        build_one(symbol, writer, names, operator_nodes=[0, 1, 2, 3, 4, -1])
    with pytest.raises(RuntimeError, match="one row for each operator and one column for each worker"):
        build_one(symbol, writer, names, attribute_index=np.zeros((6, 2), np.int32))
