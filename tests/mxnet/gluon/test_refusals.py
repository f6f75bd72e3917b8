import mxnet as mx
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon.blocks import build_perceptron, draw
from tofu.errors import TofuError


def build_partitioned():
    return tofu.gluon.partition(build_perceptron(), 2)


def test_other_derivatives_than_gradients_of_training():
    net = build_partitioned()
    with autograd.record():
        loss = net(draw(6, 5)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(mx.base.MXNetError, match="called twice after one call"):
        loss.backward()
    data = draw(6, 5)
    data.attach_grad()
    with autograd.record():
        output = (net(data) ** 2).sum()
        with pytest.raises(mx.base.MXNetError, match="non-differentiable"):
            autograd.grad(output, [data], create_graph=True)[0].sum().backward()
    with autograd.record():
        loss = net(draw(6, 5)).sum()
    with pytest.raises(mx.base.MXNetError, match="does not require gradient"):
        autograd.grad(loss, [net[0].weight.data()])


def test_overwritten_gradients():
    net = build_partitioned()
    trainer = gluon.Trainer(net.collect_params(), "sgd")

    def step(has_backward):
        with autograd.record():
            loss = net(draw(6, 5)).sum()
        if has_backward:
            loss.backward()
            trainer.step(6)

    step(True)
    kept = net[0].weight.grad()
    kept.wait_to_read()
    step(False)
    with pytest.raises(TofuError, match=r"gradient of .* is gone.*Read gradients before the next forward"):
        kept.asnumpy()
    kept[:] = 1
    assert (kept.asnumpy() == 1).all()


def test_a_step_without_a_backward():
    net = build_partitioned()
    net(draw(6, 5))
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(UserWarning, match="has not been updated by backward since last `step`"):
        trainer.step(6)


def test_one_worker_leaves_the_block_unchanged():
    net = build_perceptron()
    assert tofu.gluon.partition(net, 1) is net
    assert type(net) is nn.HybridSequential
