import copy

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon.blocks import build, build_perceptron, draw
from tofu.errors import DeviceError, PlanError, ShapeError, TofuError, UnsupportedError


def build_partitioned():
    return tofu.gluon.partition(build_perceptron(), 2)


def test_a_block_that_is_not_hybrid():
    class Plain(nn.Block):
        pass

    with pytest.raises(UnsupportedError, match=r"needs a HybridBlock, not .*Derive it from HybridBlock"):
        tofu.gluon.partition(Plain(), 2)


def test_a_block_that_is_partitioned_already():
    net = build_partitioned()
    with pytest.raises(PlanError, match="call the block first"):
        net.plan  # noqa: B018
    with pytest.raises(UnsupportedError, match=r"cannot be copied.*load_parameters"):
        copy.deepcopy(net)
    with pytest.raises(UnsupportedError, match="is partitioned already"):
        tofu.gluon.partition(net, 2)
    around = nn.HybridSequential()
    around.add(net)
    with pytest.raises(UnsupportedError, match="already belongs to a partitioned block"):
        tofu.gluon.partition(around, 2)


def test_a_hybridized_outer_block():
    around = nn.HybridSequential()
    around.add(build_partitioned())
    assert around(draw(6, 5)).shape == (6, 4)
    around.hybridize()
    with pytest.raises(UnsupportedError, match="Partition the outer block instead, or do not hybridize it"):
        around(draw(6, 5))


def test_a_symbol_in_the_place_of_an_array():
    net = build_partitioned()
    net(draw(6, 5))
    with pytest.raises(UnsupportedError, match=r"is called with a symbol.*block.partitioned_symbol.whole"):
        net(mx.sym.var("data"))


def test_several_contexts():
    net = build_perceptron()
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)], force_reinit=True)
    net(draw(6, 5))
    with pytest.raises(DeviceError, match=r"is initialized on cpu\(0\), cpu\(1\).*initialize it in one context"):
        tofu.gluon.partition(net, 2)


def test_sparse_parameters():
    class SparseBlock(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(4, 4), stype="row_sparse")

        def hybrid_forward(self, F, data, weight):
            return F.dot(data, weight)

    with pytest.raises(UnsupportedError, match=r"weight has row_sparse storage.*leave stype out"):
        tofu.gluon.partition(SparseBlock(), 2)


def test_a_parameter_outside_of_the_block():
    net = build_partitioned()
    net.hybridize(static_alloc=True)
    with pytest.raises(UnsupportedError, match="runs as a graph"):
        net.hybridize(False)
    net(draw(6, 5))
    with autograd.record():
        penalty = net(draw(6, 5)).sum()
        with pytest.raises(UnsupportedError, match=r"used inside autograd.record.*weight decay"):
            penalty = penalty + (net[0].weight.data() ** 2).sum()
        with autograd.pause():
            assert net[0].weight.data().shape == (8, 5)


def test_inputs_that_do_not_fit():
    net = build_partitioned()
    expected = net(draw(6, 5)).asnumpy()
    for is_recorded in (False, True):
        with autograd.record() if is_recorded else autograd.pause():
            with pytest.raises(
                ShapeError, match=r"data: \(6, 7\).*a_weight has shape \(8, 5\), and they ask for \(8, 7\)"
            ):
                net(draw(6, 7))
            np.testing.assert_allclose(net(draw(6, 5)).asnumpy(), expected, rtol=1e-12)


def test_inputs_of_another_type():
    net = build_partitioned()
    data, dtype = draw(6, 5), net[0].weight.dtype
    assert np.dtype(dtype) == np.float64
    with pytest.raises(
        ShapeError,
        match=r"parameters have the type float64, and the inputs float32.*astype\('float64'\).*cast\('float32'\)",
    ):
        net(data.astype("float32"))
    assert net(data).dtype == np.float64


def test_other_derivatives_than_gradients_of_training():
    net = build_partitioned()
    with autograd.record(train_mode=False), pytest.raises(UnsupportedError, match="in training mode"):
        net(draw(6, 5))
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


def test_a_failing_operator_leaves_the_parameters_unchanged():
    """Only positive definite matrices have a Cholesky factor: forward fails, and the next step runs."""

    class Factor(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(4, 4), init="ones")

        def hybrid_forward(self, F, x, weight):
            return F.linalg.potrf(F.broadcast_add(x, weight.expand_dims(0)))

    net = tofu.gluon.partition(build(Factor()), 2)
    good = mx.nd.array([[[4.0, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4]]] * 4, dtype="float64")
    with autograd.record():
        with pytest.raises((TofuError, mx.base.MXNetError)):
            net(-100 * good)
        loss = net(good).sum()
    loss.backward()
    assert (net.weight.data().asnumpy() == 1).all()


def test_one_worker_leaves_the_block_unchanged():
    net = build_perceptron()
    assert tofu.gluon.partition(net, 1) is net
    assert type(net) is nn.HybridSequential
