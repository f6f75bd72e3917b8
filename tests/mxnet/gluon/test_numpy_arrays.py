from itertools import cycle

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.shared.module_runs import assert_all_close


@pytest.fixture(autouse=True)
def numpy_arrays():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


def draw(*shape, seed=0, dtype="float64"):
    return mx.np.array(np.random.RandomState(seed).randn(*shape), dtype=dtype)


def prepare(net, *inputs, dtype="float64"):
    """Initialize a block, then cast it to a type that MXNet's initializers do not support here."""
    mx.random.seed(1)
    np.random.seed(1)
    net.initialize(mx.init.Xavier())
    with autograd.pause():
        net(*(array.astype("float32") if array.dtype == np.float64 else array for array in inputs))
    net.cast(dtype)
    return net


def train(net, data, label, optimizer="adam", steps=3, **options):
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **options})
    found = []
    for _ in range(steps):
        with autograd.record():
            loss = ((net(*data) - label) ** 2).mean()
        loss.backward()
        trainer.step(1)
        found.append(loss)
    assert all(isinstance(array, mx.np.ndarray) for array in found)
    return found + [parameter.data() for _, parameter in sorted(net.collect_params().items())]


def perceptron(partition):
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(8, activation="tanh", prefix="a_"), nn.Dropout(0.0), nn.Dense(4, prefix="b_"))
    net = partition(prepare(net, draw(6, 5)))
    found = train(net, [draw(6, 5)], draw(6, 4, seed=1), wd=0.01)
    net[0].weight.data()[1:3] = 0.25  # writes to a parameter's array count
    net[2].bias.set_data(draw(4, seed=2))
    return [*found, net(draw(3, 5)), *train(net, [draw(6, 5)], draw(6, 4, seed=1), "sgd", momentum=0.9)]


def deferred(partition):
    mx.random.seed(1)
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(8, activation="relu", prefix="a_"), nn.Dense(4, prefix="b_"))
    net.initialize()
    return train(partition(net), [draw(6, 5, dtype="float32")], draw(6, 4, seed=1, dtype="float32"), "sgd")


def gradients(partition):
    net = partition(prepare(nn.Dense(4, prefix="a_"), draw(6, 5)))
    net.collect_params().setattr("grad_req", "add")
    data = draw(6, 5)
    data.attach_grad()
    for _ in range(2):
        with autograd.record():
            loss = mx.np.square(net(mx.np.tanh(data)).mean(axis=1)).sum()
        loss.backward()
    assert isinstance(net.weight.grad(), mx.np.ndarray)
    found = [loss, data.grad, mx.np.array(net.weight.grad().asnumpy()), net.bias.grad().copy()]
    net.collect_params().zero_grad()
    return [*found, net.weight.grad()]


@pytest.mark.parametrize(
    ("script", "workers"),
    list(zip([perceptron, deferred, gradients], cycle([2, 3]), strict=False)),
)
def test_a_script_equals_one_device(script, workers):
    expected = [array.asnumpy() for array in script(lambda net: net)]
    found = script(lambda net: tofu.gluon.partition(net, workers))
    assert all(isinstance(array, mx.np.ndarray) for array in found)
    tolerance = 1e-5 if expected[0].dtype == np.float32 else 1e-10
    assert_all_close([array.asnumpy() for array in found], expected, rtol=tolerance, atol=tolerance)
