"""Equal seeds give equal initial values with `mx.mod.Module` and with `tofu.mod.Module`, so that runs can be compared."""

from functools import partial

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import residual_cnn


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


@pytest.mark.parametrize("kind", [mx.mod.Module, partial(tofu.mod.Module, ngpus=2)], ids=["one_device", "sharded"])
def test_a_parameter_that_is_a_label_is_filled_and_kept(kind):
    data, target = mx.sym.Variable("data"), mx.sym.Variable("target_weight", shape=(4,))
    module = kind(mx.sym.softmax_cross_entropy(data, target), label_names=None)
    module.bind([("data", (4, 3))])
    with pytest.raises(RuntimeError, match="target_weight"):
        module.init_params(arg_params={})
    module.init_params(arg_params={"target_weight": mx.nd.array([2, 0, 1, 2])})
    module.forward(mx.io.DataBatch([mx.nd.arange(12).reshape((4, 3))]), is_train=True)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), [4 * np.log(1 + np.exp(-1) + np.exp(-2)) + 3], 1e-6)
    np.testing.assert_array_equal(module.get_params()[0]["target_weight"].asnumpy(), [2, 0, 1, 2])
