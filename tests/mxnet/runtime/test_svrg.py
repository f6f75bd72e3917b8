from functools import partial

import mxnet as mx
import numpy as np
from mxnet.contrib.svrg_optimization.svrg_module import SVRGModule

import tofu
from tests.shared.module_runs import assert_all_close, parameters_of


def build():
    data = mx.sym.Variable("data", dtype="float64")
    net = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=8, name="a"), act_type="tanh")
    net = mx.sym.FullyConnected(net, num_hidden=4, name="b")
    return mx.sym.LinearRegressionOutput(net, mx.sym.Variable("y", dtype="float64"), name="lro")


def make_batches():
    rng = np.random.RandomState(0)
    x, y = rng.randn(20, 5), rng.randn(20, 4)
    return mx.io.NDArrayIter(mx.nd.array(x, dtype="float64"), mx.nd.array(y, dtype="float64"), 6, label_name="y")


def fit(module):
    rng = np.random.RandomState(1)
    values = {"a_weight": (8, 5), "a_bias": (8,), "b_weight": (4, 8), "b_bias": (4,)}
    parameters = {name: mx.nd.array(rng.randn(*shape), dtype="float64") for name, shape in values.items()}
    options = {"arg_params": parameters, "optimizer_params": {"learning_rate": 0.05}, "initializer": None}
    module.fit(make_batches(), eval_metric="mse", num_epoch=4, **options)
    return parameters_of(module)


def test_svrg_trains_as_on_one_device(monkeypatch):
    symbol, options = build(), {"label_names": ["y"], "update_freq": 2}
    with monkeypatch.context() as patch:  # MXNet's averages are in single precision, whatever the weights are
        patch.setattr(mx.nd, "zeros", partial(mx.nd.zeros, dtype="float64"))
        expected = fit(SVRGModule(symbol, **options))
        assert_all_close(fit(SVRGModule(tofu.partition(symbol, 2), **options)), expected, rtol=0, atol=1e-11)
    module = tofu.mod.SVRGModule(tofu.partition(symbol, 3), **options)
    assert_all_close(fit(module), expected, rtol=0, atol=1e-11)
    assert module.plan.workers == 3
    plain = fit(mx.mod.Module(symbol, label_names=["y"]))
    assert min(np.abs(plain[name] - value).max() for name, value in expected.items()) > 1e-3
