import mxnet as mx
import pytest

from tests.nnvm.graphs import cnn, mlp, training_graph
from tofu import _mxnet


def regression():
    """Outputs without a loss, which need head gradients."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    shared = mx.sym.Activation(x, act_type="tanh", name="act")
    head = mx.sym.FullyConnected(shared, num_hidden=3, name="head")
    return mx.sym.Group([head, mx.sym.Dropout(shared, p=0.5, name="drop")])


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


def test_unknown_and_ambiguous_arguments_are_refused():
    with pytest.raises(RuntimeError) as error:
        training_graph(mlp(), ["fc7_weight"])
    assert str(error.value) == "no argument of the symbol is called fc7_weight"
    twice = mx.sym.Variable("x") + mx.sym.Variable("x")
    with pytest.raises(RuntimeError) as error:
        training_graph(twice, ["x"])
    assert "several arguments of the symbol are called x" in str(error.value)
