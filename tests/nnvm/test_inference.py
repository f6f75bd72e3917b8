import mxnet as mx
import pytest

from tofu import _mxnet


def shapes_by_name(symbol, shapes, dtypes):
    found, types = _mxnet.infer(symbol.handle.value, shapes, dtypes)
    nodes = _mxnet.nodes(symbol.handle.value)
    return {node["name"]: (found[node["entry"]], types[node["entry"]]) for node in nodes}


def test_unknown_dimensions_and_types():
    fc = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    found = shapes_by_name(fc, {"data": (0, 5)}, {})
    assert found == {
        "data": ((-1, 5), -1),
        "fc_weight": ((6, 5), -1),
        "fc_bias": ((6,), -1),
        "fc": ((-1, 6), -1),
    }
    assert shapes_by_name(mx.sym.Activation(mx.sym.Variable("x"), act_type="relu", name="a"), {}, {}) == {
        "x": (None, -1),
        "a": (None, -1),
    }


def test_contradictions_name_the_operator_and_both_values():
    symbol = mx.sym.Variable("a") + mx.sym.Variable("b")
    with pytest.raises(RuntimeError, match=r"(?s)Error in operator .*plus.*\[2,3\].*\[2,4\]"):
        _mxnet.infer(symbol.handle.value, {"a": (2, 3), "b": (2, 4)}, {})
    with pytest.raises(RuntimeError) as error:
        _mxnet.infer(symbol.handle.value, {"c": (2, 3)}, {})
    assert str(error.value) == "no input of the graph is called c"


def test_infers_one_operator():
    attrs = {"num_hidden": "3"}
    assert _mxnet.infer_operator("FullyConnected", attrs, [(4, 5), None, None]) == [(4, 3)]
    assert _mxnet.infer_operator("FullyConnected", attrs, [(4, 5), (3, 5), (3,)]) == [(4, 3)]
    with pytest.raises(RuntimeError) as error:
        _mxnet.infer_operator("FullyConnected", attrs, [(4, 5), (3, 6), (3,)])
    assert str(error.value) == "Shape inconsistent, Provided = [3,6], inferred shape=(3,5)"
    with pytest.raises(RuntimeError, match="Required parameter num_hidden"):
        _mxnet.infer_operator("FullyConnected", {}, [(4, 5), None, None])
