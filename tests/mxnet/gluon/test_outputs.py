"""What a partitioned block gives its users beside one device: outputs that are one array twice, states, what hooks see, and errors."""

from __future__ import annotations

import ctypes

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon.blocks import build, build_perceptron, draw


def run_twice_given(workers, used):
    """A cell gives its output and, the same once more, its state."""
    net = build(gluon.rnn.GRUCell(4, input_size=6, prefix="cell_"))
    if workers > 1:
        tofu.gluon.partition(net, workers)
    data = draw(8, 6)
    data.attach_grad()
    with autograd.record():
        output, (state,) = net(data, [draw(8, 4, seed=1)])
        loss = sum((array**power).sum() for power, array in ((2, output), (3, state)) if power in used)
    loss.backward()
    return [array.asnumpy() for array in (data.grad, net.i2h_weight.grad(), net.h2h_bias.grad())]


@pytest.mark.parametrize("used", [{2}, {3}, {2, 3}])
def test_one_array_that_is_two_outputs_has_the_gradients_of_both(used):
    for own, one_device in zip(run_twice_given(2, used), run_twice_given(1, used), strict=True):
        assert np.abs(one_device).max() > 0.1
        np.testing.assert_allclose(own, one_device, rtol=0, atol=1e-11)


def test_a_loss_that_is_two_outputs_needs_no_gradient():
    loss = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc"), name="softmax")
    executor = tofu.partition(mx.sym.Group([loss, loss]), 2).simple_bind(mx.cpu(), data=(8, 6))
    executor.arg_dict["fc_weight"][:] = mx.nd.array(np.random.RandomState(0).randn(4, 6))
    executor.arg_dict["data"][:] = 1
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_dict["fc_weight"].asnumpy().any()


def test_a_projected_state_is_narrower_than_the_cells():
    """MXNet's CPUs do not train it."""
    net = gluon.rnn.LSTM(4, projection_size=2, input_size=3)
    net.initialize(mx.init.Xavier())
    data, states = mx.nd.array(np.random.RandomState(0).randn(5, 6, 3)), net.begin_state(6)
    (expected, expected_states), whole = net(data, states), tofu.gluon.partition(net, 2)
    found, found_states = whole(data, states)
    assert [state.shape for state in found_states] == [(1, 6, 2), (1, 6, 4)]
    for own, one_device in zip([found, *found_states], [expected, *expected_states], strict=True):
        np.testing.assert_allclose(own.asnumpy(), one_device.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:register_op_hook is experimental:UserWarning")  # MXNet says so of every block
@pytest.mark.parametrize("monitor_all", [False, True])
def test_a_hook_sees_what_it_sees_on_one_device(monitor_all):
    def run(workers):
        net = build_perceptron()
        if workers > 1:
            tofu.gluon.partition(net, workers)
        net.hybridize()
        seen = []

        def note(name, op, handle):
            array = mx.nd.NDArray(ctypes.cast(handle, mx.base.NDArrayHandle), writable=False)
            seen.append((name.decode(), op.decode(), array.asnumpy()))

        net(draw(6, 5))
        net.register_op_hook(note, monitor_all)
        net(draw(4, 5))
        net(draw(4, 5))
        return seen

    found, expected = run(2), run(1)
    assert [(name, op) for name, op, _ in found] == [(name, op) for name, op, _ in expected]
    assert len(found) == 2 * (10 if monitor_all else 3)
    for (_, _, own), (_, _, one_device) in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, one_device, rtol=0, atol=1e-11)


def test_shapes_that_mxnet_refuses_raise_its_error():
    net = nn.LayerNorm(in_channels=10)
    net.initialize()
    net = tofu.gluon.partition(net, 2)
    with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
        net(mx.nd.ones((4, 11)))
    with pytest.raises(mx.MXNetError, match="do not fit the model"):
        tofu.partition(mx.sym.dot(mx.sym.Variable("a"), mx.sym.Variable("b")), 2, a=(4, 3), b=(4, 3))


def test_a_summary_is_that_of_one_device(capsys):
    """Before the first call, which tells shapes, after it and after training; the block runs on its workers as before."""

    def make():
        net = mx.gluon.nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(6, activation="tanh"))
        net.initialize(mx.init.One())
        return net

    def read_summary(net):
        net.summary(data)
        return capsys.readouterr().out

    data = mx.nd.ones((4, 2, 5, 5))
    alone, net = make(), tofu.gluon.partition(make(), ngpus=2)
    assert read_summary(net) == read_summary(alone)
    expected = read_summary(alone)
    for is_trained in (False, True):
        with mx.autograd.record(train_mode=True):
            result = net(data)
        if is_trained:
            result.backward()
        assert read_summary(net) == expected
        assert net.plan.workers == 2
    np.testing.assert_allclose(net(data).asnumpy(), alone(data).asnumpy(), rtol=1e-5)


def test_a_summary_that_fails_leaves_the_block_partitioned():
    net = mx.gluon.nn.Dense(6, in_units=5)
    net.initialize()
    net = tofu.gluon.partition(net, ngpus=2)
    with pytest.raises(mx.MXNetError):
        net.summary(mx.nd.ones((4, 7)))
    assert net(mx.nd.ones((4, 5))).shape == (4, 6)
    assert net.plan.workers == 2
