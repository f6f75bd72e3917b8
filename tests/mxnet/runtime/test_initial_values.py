"""Equal seeds give equal initial values with `mx.mod.Module` and with `tofu.mod.Module`, so that runs can be compared."""

import mxnet as mx
import numpy as np

import tofu
from benchmarks.small_models.plain import residual_cnn


def initial_values(module, model):
    mx.random.seed(5)
    module.bind([("data", model.shapes["data"])], [("softmax_label", model.shapes["data"][:1])])
    module.init_params(mx.init.Xavier())
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


def test_equal_seeds_give_equal_values():
    model = residual_cnn()
    expected = initial_values(mx.mod.Module(model.symbol), model)
    found = initial_values(tofu.mod.Module(model.symbol, ngpus=4), model)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
