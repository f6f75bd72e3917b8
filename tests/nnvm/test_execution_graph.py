"""Programs become graphs that compute what one device computes."""

from itertools import pairwise

import mxnet as mx
import numpy as np
import pytest

from tests.nnvm.batch_split import BatchSplit, reference
from tests.nnvm.graphs import arguments_of, cnn, count_copies, mlp, random_arguments, training_graph, wrap
from tests.shared.json_graph import bind
from tests.shared.programs import ProgramWriter
from tofu import _mxnet
from tofu.mxnet.check.traffic import read_tables
from tofu.program import NodeKind


def plain_cnn(dropout=0.0):
    x = mx.sym.Variable("data")
    for i in range(2):
        x = mx.sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), name=f"conv{i}")
        x = mx.sym.Activation(x, act_type="relu", name=f"act{i}")
    x = mx.sym.Flatten(mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool"), name="flat")
    if dropout:
        x = mx.sym.Dropout(x, p=dropout, name="drop")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=8, name="fc"), name="softmax")


CASES = {"mlp": (mlp, (19, 12)), "cnn": (plain_cnn, (9, 3, 8, 8)), "dropout": (lambda: plain_cnn(1e-12), (9, 3, 8, 8))}


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@pytest.mark.parametrize("case", CASES)
def test_equals_one_device(case, k):
    build, data = CASES[case]
    symbol = build()
    _, shapes, trained = arguments_of(symbol, data=data)
    values = random_arguments(shapes, seed=1)
    split = BatchSplit(symbol, shapes, trained, k)
    executor = split.bind()
    assert count_copies(executor) == 0
    split.scatter(executor, values)
    expected = reference(symbol, values, trained)
    for _ in range(5):  # a race would show in one of several runs
        found = split.gather(executor.forward(is_train=True))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_nodes_are_named_by_worker_and_stay_on_theirs():
    symbol = mlp()
    _, shapes, trained = arguments_of(symbol, data=(16, 12))
    split = BatchSplit(symbol, shapes, trained, 2)
    nodes = _mxnet.nodes(split.symbol.handle.value)
    by_name = {node["name"]: node for node in nodes}
    assert len(by_name) == len(nodes)
    assert by_name["fc1@1"]["op"] == "FullyConnected"
    assert by_name["fc1@1"]["attrs"]["__ctx_group__"] == "tofu_worker_1"
    assert by_name["fc1_backward@0"]["op"] == "_tofu_clone__backward_FullyConnected"
    assert by_name["fc1_weight@0"]["attrs"]["__shape__"] == "[12,24]"
    executor = split.bind()
    for name, array in executor.arg_dict.items():
        assert array.context == mx.cpu(int(name.split("@")[1]))
    for i, array in enumerate(executor.outputs):
        assert array.context == mx.cpu(i % 2)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_one_chain_orders_all_nodes(case, k):
    """Each node reads the one before it or waits for it: whoever walks the graph meets the program's order, and plans buffers by it."""
    build, data = CASES[case]
    symbol = build()
    _, shapes, trained = arguments_of(symbol, data=data)
    split = BatchSplit(symbol, shapes, trained, k)
    tables = read_tables(split.symbol)
    after = {tuple(pair) for pairs in (tables.edges, tables.control_deps) for pair in pairs.tolist()}
    nodes = [node["id"] for node in _mxnet.nodes(split.symbol.handle.value) if node["op"] != "null"]
    assert len(nodes) == sum(node[0] != NodeKind.VARIABLE for node in split.writer.nodes)
    assert [pair for pair in pairwise(nodes) if pair[::-1] not in after] == []


def test_gradient_sums_of_one_name_are_told_apart():
    x = mx.sym.Variable("data")
    for i in range(2):
        x = mx.sym.FullyConnected(x, num_hidden=6, name=f"fc{i}")
        x = sum((mx.sym.Activation(x, act_type="tanh", name=f"act{i}{j}") for j in range(3)), x)
    symbol = mx.sym.SoftmaxOutput(x, name="softmax")
    _, shapes, trained = arguments_of(symbol, data=(5, 4))
    split = BatchSplit(symbol, shapes, trained, 2)
    sums = {node["name"] for node in _mxnet.nodes(split.symbol.handle.value) if "sum_grad" in node["name"]}
    assert sums == {"sum_grad@0", "sum_grad@1", "sum_grad~2@0", "sum_grad~2@1"}


def test_long_gradient_sums_add_in_place():
    """8 and more summands become a chain of _grad_add, in which the producers of gradients add to a common buffer."""
    data = mx.sym.Variable("data")
    weight = mx.sym.Variable("weight")
    x = data
    for i in range(9):
        x = mx.sym.FullyConnected(x, weight, num_hidden=6, no_bias=True, name=f"fc{i}")
        x = mx.sym.Activation(x, act_type="tanh", name=f"act{i}")
    symbol = mx.sym.SoftmaxOutput(x, name="softmax")
    _, shapes, trained = arguments_of(symbol, data=(7, 6))
    values = random_arguments(shapes, seed=2, classes=6)
    split = BatchSplit(symbol, shapes, trained, 2)
    assert "_grad_add" in {node["op"] for node in _mxnet.nodes(split.symbol.handle.value)}
    executor = split.bind()
    split.scatter(executor, values)
    found = split.gather(executor.forward(is_train=True))
    for a, b in zip(found, reference(symbol, values, trained), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def replicate(symbol, shapes, trained, k):
    """Every worker computes everything: no fetches, but states and auxiliary variables of its own."""
    training = training_graph(symbol, trained)
    handle = training.handle.value
    nodes = _mxnet.nodes(handle)
    variables = {node["name"] for node in nodes if node["op"] == "null"}
    known = {name: shape for name, shape in shapes.items() if name in variables}
    entry_shapes, types = _mxnet.infer(handle, known, dict.fromkeys(known, 0))
    writer = ProgramWriter(k)
    place = {}
    for node in nodes:
        for w in range(k):
            outputs = entry_shapes[node["entry"] : node["entry"] + node["num_outputs"]]
            if node["op"] == "null":
                place[node["id"], w] = writer.variable(node["entry"], w, outputs[0])
            else:
                inputs = [(place[n, w], i) for n, i in node["inputs"]]
                place[node["id"], w] = writer.operator(node["id"], w, inputs, outputs)
    writer.outputs = [(place[n, w], i) for n, i in _mxnet.outputs(handle) for w in range(k)]
    names = [node["name"] for node in nodes for _ in range(node["num_outputs"])]
    none = np.full((len(nodes), k), -1, np.int32)
    operators = [node["id"] for node in nodes]
    built = _mxnet.build_execution_graph(handle, writer.encode(), operators, [], none, names, types)
    return wrap(built)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_auxiliary_states_and_operator_states_belong_to_a_worker(dropout):
    symbol = cnn() if not dropout else plain_cnn(dropout)
    _, shapes, trained = arguments_of(symbol, data=(4, 3, 8, 8))
    values = random_arguments(shapes, seed=3)
    graph = replicate(symbol, shapes, trained, 2)
    assert {node["is_aux"] for node in _mxnet.nodes(graph.handle.value) if "moving" in node["name"]} <= {True}
    executor = bind(graph, 2)
    for name, value in values.items():
        for w in range(2):
            executor.arg_dict[f"{name}@{w}"][:] = value
    outputs = [array.asnumpy() for array in executor.forward(is_train=True)]
    same = [np.array_equal(a, b) for a, b in zip(outputs[::2], outputs[1::2], strict=True)]
    if dropout:  # the masks of two workers differ; the gradient of a worker belongs to its own mask
        assert not any(same)
        return
    assert all(same)
    for w in range(2):
        assert executor.aux_dict[f"bn_moving_mean@{w}"].asnumpy().any()


def test_attributes_are_changed_and_parsed_again():
    """A fully connected layer split by columns: forward and backward copies compute half of the units."""
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, no_bias=True, name="fc")
    training = training_graph(symbol, ["data", "fc_weight"])
    nodes = _mxnet.nodes(training.handle.value)
    assert [node["name"] for node in nodes] == ["data", "fc_weight", "fc", "_head_grad_0", "fc_backward"]
    writer = ProgramWriter(2)
    parts = []
    for w in range(2):
        data, weight = writer.variable(0, w, (4, 5)), writer.variable(1, w, (3, 5))
        fc = writer.operator(2, w, [(data, 0), (weight, 0)], [(4, 3)])
        gradient = writer.variable(3, w, (4, 3))
        parts.append((fc, writer.operator(4, w, [(gradient, 0), (data, 0), (weight, 0)], [(4, 5), (3, 5)])))
    sums = [
        (writer.fetch(4, w, 1, (4, 5), [(b, 0) for _, b in parts], [((0, 0), (4, 5), [(0, (0, 0)), (1, (0, 0))])]), 0)
        for w in range(2)
    ]
    writer.outputs = [*((fc, 0) for fc, _ in parts), *sums, *((b, 1) for _, b in parts)]
    changes = [{}, {"num_hidden": "3"}]
    rows = np.array([[0, 0], [0, 0], [1, 1], [0, 0], [1, 1]], np.int32)
    names = ["data", "fc_weight", "fc_output", "_head_grad_0", "d_data", "d_weight"]
    handle = training.handle.value
    graph = wrap(_mxnet.build_execution_graph(handle, writer.encode(), list(range(5)), changes, rows, names, [1] * 6))
    by_name = {node["name"]: node for node in _mxnet.nodes(graph.handle.value)}
    assert by_name["fc@1"]["attrs"]["num_hidden"] == "3"
    executor = bind(graph, 2)
    rng = np.random.RandomState(0)
    x, weight, head = rng.rand(4, 5), rng.rand(6, 5), rng.rand(4, 6)
    for w in range(2):
        executor.arg_dict[f"data@{w}"][:] = x
        executor.arg_dict[f"fc_weight@{w}"][:] = weight[3 * w : 3 * w + 3]
        executor.arg_dict[f"_head_grad_0@{w}"][:] = head[:, 3 * w : 3 * w + 3]
    found = [array.asnumpy() for array in executor.forward(is_train=True)]
    assert found[0].dtype == np.float64
    np.testing.assert_allclose(np.concatenate(found[:2], axis=1), x @ weight.T)
    np.testing.assert_allclose(found[2], head @ weight)
    np.testing.assert_array_equal(found[3], found[2])
    np.testing.assert_allclose(np.concatenate(found[4:]), head.T @ x)


def build_one(symbol, writer, tensor_names, **changed):
    training = training_graph(symbol, [])
    n = len(_mxnet.nodes(training.handle.value))
    given = {
        "operator_nodes": list(range(n)),
        "attributes": [],
        "attribute_index": np.full((n, writer.workers), -1, np.int32),
        "tensor_names": tensor_names,
        "tensor_dtypes": [0] * len(tensor_names),
    }
    return _mxnet.build_execution_graph(training.handle.value, writer.encode(), **(given | changed))


def test_programs_that_do_not_fit_are_refused():
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


def test_malformed_programs_are_refused():
    writer = ProgramWriter(1)
    writer.outputs = [(writer.variable(0, 0, (2,)), 0)]
    symbol = mx.sym.Variable("data")
    data = writer.encode()
    build_one(symbol, writer, ["data"])
    for wrong, message in [
        (data[:-1], "ends in the middle of a node"),
        (data[:6], "ends in the middle of a node"),
        (np.append(data, 0), "goes on after its end"),
        (data + 1, "not an encoded program"),
    ]:
        writer.encode = lambda wrong=wrong: wrong
        with pytest.raises(ValueError, match=message):
            build_one(symbol, writer, ["data"])
