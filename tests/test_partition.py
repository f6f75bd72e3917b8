"""`tofu.partition` looks at what it is given."""

import subprocess
import sys

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import ArgumentTypeError

NET = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")


def test_a_symbol():
    for made in (
        tofu.partition(NET, ngpus=2, data=(4, 6)),
        tofu.partition(NET, 2, data=(4, 6)),
        tofu.partition(NET, workers=2, data=(4, 6)),
        tofu.partition(symbol=NET, ngpus=2, data=(4, 6)),
        tofu.mxnet.partition(NET, 2, data=(4, 6)),
    ):
        assert isinstance(made, tofu.PartitionedSymbol)
        assert made.plan.workers == 2
    assert tofu.partition(made, ngpus=4, data=(4, 8)).plan.workers == 4  # of a partitioned symbol, its model


def test_a_block():
    net = mx.gluon.nn.Dense(8, in_units=6)
    net.initialize()
    assert tofu.partition(net, workers=2) is net
    assert net(mx.nd.ones((4, 6))).shape == (4, 8)


def test_a_step():
    step = lambda x: (x @ x).sum()  # noqa: E731
    made = tofu.partition(step, 1, (np.ones((64, 64), np.float32),))
    assert made.plan.workers == 1
    assert float(made(np.ones((64, 64), np.float32))) == 64**3

    @tofu.partition(workers=1)
    def doubled(x):
        return 2 * x

    np.testing.assert_array_equal(doubled(np.ones(3)), [2, 2, 2])


@pytest.mark.parametrize("model", [None, "model-symbol.json", 3])
def test_something_else(model, monkeypatch):
    monkeypatch.delitem(sys.modules, "mxnet")  # which has more to say of it
    with pytest.raises(ArgumentTypeError, match=r"takes an mx\.sym\.Symbol, a Gluon block, or a training step for JAX"):
        tofu.partition(model, 4)


def test_a_number_of_devices_that_is_given_twice():
    with pytest.raises(ArgumentTypeError, match="passed twice"):
        tofu.partition(NET, 2, workers=2)


def test_no_framework_is_imported_that_the_model_is_not_of():
    code = "import tofu, sys; tofu.partition; assert not {'jax', 'mxnet', 'tofu._core'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
