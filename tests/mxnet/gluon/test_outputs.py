import ctypes

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon.blocks import build, build_perceptron, draw
from tests.shared.module_runs import assert_all_close


def run_gru_cell(workers, used):
    net = build(gluon.rnn.GRUCell(4, input_size=6, prefix="cell_"))
    tofu.gluon.partition(net, workers)
    data = draw(8, 6)
    data.attach_grad()
    with autograd.record():
        output, (state,) = net(data, [draw(8, 4, seed=1)])
        loss = sum((array**power).sum() for power, array in ((2, output), (3, state)) if power in used)
    loss.backward()
    return [array.asnumpy() for array in (data.grad, net.i2h_weight.grad(), net.h2h_bias.grad())]


@pytest.mark.parametrize("used", [{2}, {3}, {2, 3}])
def test_an_array_returned_twice_gets_the_gradients_of_both(used):
    expected = run_gru_cell(1, used)
    assert min(np.abs(array).max() for array in expected) > 0.1
    assert_all_close(run_gru_cell(2, used), expected, rtol=0, atol=1e-11)


def test_a_loss_returned_twice_needs_no_head_gradient():
    loss = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc"), name="softmax")
    executor = tofu.partition(mx.sym.Group([loss, loss]), 2).simple_bind(mx.cpu(), data=(8, 6))
    executor.arg_dict["fc_weight"][:] = mx.nd.array(np.random.RandomState(0).randn(4, 6))
    executor.arg_dict["data"][:] = 1
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_dict["fc_weight"].asnumpy().any()


@pytest.mark.filterwarnings("ignore:register_op_hook is experimental:UserWarning")
@pytest.mark.parametrize("monitor_all", [False, True])
def test_hooks_see_the_names_and_numbers_of_one_device(monitor_all):
    def run(workers):
        net = tofu.gluon.partition(build_perceptron(), workers)
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
    assert_all_close([array for *_, array in found], [array for *_, array in expected], rtol=0, atol=1e-11)


def test_invalid_shapes_raise_mxnets_error():
    net = nn.LayerNorm(in_channels=10)
    net.initialize()
    net = tofu.gluon.partition(net, 2)
    with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
        net(mx.nd.ones((4, 11)))
    with pytest.raises(mx.MXNetError, match="do not fit the model"):
        tofu.partition(mx.sym.dot(mx.sym.Variable("a"), mx.sym.Variable("b")), 2, a=(4, 3), b=(4, 3))


def test_a_summary_equals_one_device(capsys):

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
    with pytest.raises(mx.MXNetError):
        net.summary(mx.nd.ones((4, 7)))
    np.testing.assert_allclose(net(data).asnumpy(), alone(data).asnumpy(), rtol=1e-5)
    assert net.plan.workers == 2
