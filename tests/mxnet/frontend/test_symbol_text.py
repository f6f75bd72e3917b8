import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import assert_all_close
from tofu.mxnet.frontend.symbol_text import in_plain_form


@mx.operator.register("symbol_text")
class Flagged(mx.operator.CustomOpProp):
    def __init__(self, flag):
        super().__init__(need_top_grad=False)
        assert flag == "true"


def bound_results(symbol):
    executor = symbol.simple_bind(mx.cpu(), type_dict={"data": "float64"}, data=(3, 4, 5))
    for array in executor.arg_dict.values():
        array[:] = np.linspace(-0.4, 0.6, array.size).reshape(array.shape)
    executor.aux_dict["norm_moving_var"][:] = 1
    executor.forward(is_train=True)
    executor.backward()
    return [array.asnumpy() for array in (*executor.outputs, *executor.grad_arrays, executor.arg_dict["gamma"])]


def normalize(text):
    data, gamma = mx.sym.Variable("data", dtype="float64"), mx.sym.Variable("gamma", dtype="float64")
    return mx.sym.BatchNorm(data, gamma, fix_gamma=text, name="norm")


@pytest.mark.parametrize("text", ["true", "TRUE", "1"])
def test_booleans_are_read_as_in_mxnet(text):
    options = {"mode": "gru", "state_size": 3, "num_layers": 1, "bidirectional": text, "state_outputs": text}
    states = mx.sym.zeros((2, 0, 3), dtype="float64")
    net = mx.sym.RNN(normalize(text), mx.sym.Variable("parameters"), states, **options)
    symbol = mx.sym.Group([mx.sym.MakeLoss(mx.sym.sin(tensor)) for tensor in net])
    partitioned = tofu.partition(symbol, 2, unroll="always")
    assert_all_close(bound_results(partitioned), bound_results(symbol), rtol=1e-11, atol=1e-12)
    assert "RNN" not in partitioned.execution_symbol.tojson()


@pytest.mark.parametrize("text", ["True", "TRUE"])
def test_own_kernels_know_a_fixed_gamma(text):
    symbol = mx.sym.MakeLoss(mx.sym.sin(normalize(text)))
    partitioned = tofu.partition(symbol, 2, hints={"norm": "b", "norm_backward": "b"})
    assert_all_close(bound_results(partitioned), bound_results(symbol), rtol=1e-11, atol=1e-12)


def test_attributes_of_python_operators_stay_unchanged():
    data = mx.sym.Variable("data", attr={"__note__": "true", "__ctx_group__": "first"})
    net = mx.sym.Custom(mx.sym.sum(data, keepdims="TRUE", name="total"), op_type="symbol_text", flag="true", name="own")
    attributes = in_plain_form(net).attr_dict()
    assert attributes["data"] == {"__note__": "true"}
    assert attributes["total"] == {"keepdims": "True"}
    assert attributes["own"]["flag"] == "true"
