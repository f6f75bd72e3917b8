import mxnet as mx
import numpy as np
import pytest

from tests.nnvm.graphs import arguments_of, cnn, mlp, random_arguments, training_graph
from tests.shared.json_graph import UNUSED
from tofu import _mxnet


def regression():
    """Outputs without a loss, which need head gradients."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    shared = mx.sym.Activation(x, act_type="tanh", name="act")
    head = mx.sym.FullyConnected(shared, num_hidden=3, name="head")
    return mx.sym.Group([head, mx.sym.Dropout(shared, p=0.5, name="drop")])


def lstm():
    cell = mx.rnn.LSTMCell(8, prefix="l_")
    embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=10, output_dim=6, name="emb")
    outputs, _ = cell.unroll(9, inputs=embedded, merge_outputs=True, layout="NTC")
    logits = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 8)), num_hidden=10, name="pred")
    return mx.sym.SoftmaxOutput(logits, label=mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,)))


CASES = {
    "mlp": (mlp, {"data": (16, 12)}),
    "cnn": (cnn, {"data": (4, 3, 8, 8)}),
    "regression": (regression, {"data": (4, 5)}),
    "lstm": (lstm, {"data": (4, 9), "softmax_label": (4, 9)}),
}


def bind(symbol, context, values, requests):
    executor = symbol.simple_bind(context, grad_req=requests, **{name: v.shape for name, v in values.items()})
    for name, value in values.items():
        executor.arg_dict[name][:] = value
    for state in executor.aux_arrays:
        state[:] = 0.5
    mx.random.seed(3)
    return executor


def run_executor(symbol, values, trained, head_gradients):
    requests = {name: "write" if name in trained else "null" for name in values}
    executor = bind(symbol, mx.cpu(), values, requests)
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(g) for g in head_gradients])
    results = [*executor.outputs, *(executor.grad_dict[name] for name in trained), *executor.aux_arrays]
    return [array.asnumpy() for array in results]


def run_training_graph(symbol, values, trained, head_gradients):
    training = training_graph(symbol, trained)
    values = values | {f"_head_grad_{i}": g for i, g in enumerate(head_gradients)}
    values = {name: values[name] for name in training.list_arguments()}
    executor = bind(training, UNUSED, values, "null")
    return [array.asnumpy() for array in [*executor.forward(is_train=True), *executor.aux_arrays]]


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_equal_mxnets_executor(case):
    build, shapes = CASES[case]
    symbol = build()
    _, all_shapes, trained = arguments_of(symbol, **shapes)
    values = random_arguments(all_shapes, seed=1)
    if case == "lstm":
        values["data"] = np.random.RandomState(2).randint(0, 10, (4, 9)).astype("float32")
    rng = np.random.RandomState(4)
    head_gradients = [rng.rand(*s).astype("float32") for s in symbol.infer_shape(**shapes)[1]]
    expected = run_executor(symbol, values, trained, head_gradients)
    found = run_training_graph(symbol, values, trained, head_gradients)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_head_gradients_are_variables_of_their_own():
    training = training_graph(regression(), ["fc_weight", "head_bias"])
    assert {name for name in training.list_arguments() if name.startswith("_head")} == {"_head_grad_0", "_head_grad_1"}
    assert not {"_identity_with_attr_like_rhs"} & {node["op"] for node in _mxnet.nodes(training.handle.value)}
    assert len(_mxnet.outputs(training.handle.value)) == 4
    training = training_graph(mlp(), ["fc0_weight"])
    assert not [name for name in training.list_arguments() if name.startswith("_head")]


def test_the_symbol_stays_unchanged():
    symbol = cnn()
    before = symbol.tojson()
    training = training_graph(symbol, ["conv_weight"])
    assert symbol.tojson() == before
    del symbol
    assert training.list_arguments()[0] == "data"
    symbol = cnn()
    assert training_graph(symbol, []).tojson() == symbol.tojson()


def test_backward_nodes_name_their_forward_node():
    training = training_graph(cnn(), ["conv_weight", "bn_gamma"])
    nodes = _mxnet.nodes(training.handle.value)
    by_name = {node["name"]: node for node in nodes}
    assert nodes[by_name["conv2_backward"]["control_deps"][0]]["name"] == "conv2"
    assert by_name["conv2_backward"]["is_backward"]
    assert by_name["bn_moving_mean"]["is_aux"]
    assert by_name["bn"]["mutable_inputs"] == [3, 4]
    assert by_name["conv2"]["entry"] == by_name["conv2"]["id"] + 2


def test_unknown_and_ambiguous_arguments_are_refused():
    with pytest.raises(RuntimeError) as error:
        training_graph(mlp(), ["fc7_weight"])
    assert str(error.value) == "no argument of the symbol is called fc7_weight"
    twice = mx.sym.Variable("x") + mx.sym.Variable("x")
    with pytest.raises(RuntimeError) as error:
        training_graph(twice, ["x"])
    assert "several arguments of the symbol are called x" in str(error.value)
