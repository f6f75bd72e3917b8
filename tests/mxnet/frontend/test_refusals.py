import re

import mxnet as mx
import numpy as np
import pytest

import tofu
from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.compare.values import draw_values
from tofu.plan import Plan
from tofu.tdl import tanh

SHAPES = {"data": (4, 6)}


def classifier(hidden):
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=4, name="fc"), name="softmax")


def data():
    return mx.sym.Variable("data")


def norms_with_shared_statistics():
    """Return functions that add a BatchNorm each. Both have the same statistics, and only the first changes them."""
    shared = [mx.sym.Variable(name) for name in ("gamma", "beta", "mean", "var")]

    def changing(net):
        return mx.sym.BatchNorm(net, *shared, fix_gamma=False, name="one")

    def reading(net):
        return mx.sym.BatchNorm(net, *shared, fix_gamma=False, use_global_stats=True, name="two")

    return changing, reading


@pytest.mark.parametrize("is_first", [False, True])
def test_statistics_that_change_in_arbitrary_order_are_refused(is_first):
    changing, reading = norms_with_shared_statistics()
    shared = data()
    norms = changing(shared), reading(mx.sym.tanh(shared))
    net = mx.sym.Group(norms[::-1] if is_first else norms)
    lines = [f"  - two (BatchNorm) reads {name}, a statistic that one (BatchNorm) changes" for name in ("mean", "var")]
    with pytest.raises(tofu.UnsupportedError, match="in arbitrary order") as raised:
        tofu.partition(net, ngpus=2, cache=False, **SHAPES)
    assert str(raised.value).splitlines()[1:] == lines
    tofu.partition(net, ngpus=2, cache=False, for_training=False, **SHAPES)


@pytest.mark.parametrize("is_first", [False, True])
def test_statistics_that_change_in_the_order_of_the_data_agree(is_first):
    changing, reading = norms_with_shared_statistics()
    inner, outer = (reading, changing) if is_first else (changing, reading)
    chain = outer(mx.sym.tanh(inner(data())))
    assert tofu.partition(chain, ngpus=2, cache=False).verify(**SHAPES).agrees


class Twice(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], 2 * in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * out_grad[0])


@mx.operator.register("test_refusals_twice")
class TwiceProperties(mx.operator.CustomOpProp):
    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Twice()


def test_custom_operators_are_refused_or_replicated():
    hidden = mx.sym.FullyConnected(data(), num_hidden=8, name="hidden")
    model = classifier(mx.sym.Custom(hidden, op_type="test_refusals_twice", name="twice"))
    message = r"(?s)undescribed=\"replicate\".*- Custom, used by twice.*used by twice_backward"
    with pytest.raises(tofu.UndescribedOperatorError, match=message):
        tofu.partition(model, ngpus=2, cache=False, **SHAPES)
    partitioned = tofu.partition(model, ngpus=2, cache=False, undescribed="replicate", **SHAPES)
    plan = partitioned.plan
    assert plan.operators["twice"] == (None,)
    assert plan.undescribed["twice"].reason == "Custom has no description"
    assert 0 < plan.undescribed["twice"].work_share < 1
    assert "computed whole by every worker: twice (Custom has no description), " in str(plan)
    assert Plan.from_json(plan.to_json()).undescribed == plan.undescribed
    values = draw_values(model, SHAPES)
    found, expected = (
        run_step(symbol, SHAPES, values, {"hidden_weight": "write"}).training.gradients["hidden_weight"]
        for symbol in (partitioned, model)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_attributes_without_a_description_name_the_operator():
    cell = mx.sym.Reshape(data(), shape=(0, 0, 1, 1))
    sizes = {"twofold": 2, "threefold": 3}
    planes = [
        mx.sym.UpSampling(cell, scale=n, sample_type="nearest", num_args=1, name=name) for name, n in sizes.items()
    ]
    both = mx.sym.UpSampling(*planes, scale=3, sample_type="nearest", num_args=2, name="both")
    model = classifier(mx.sym.Flatten(both))
    with pytest.raises(tofu.UnsupportedError, match=r"UpSampling both of .* is described .*undescribed=\"replicate\""):
        tofu.partition(model, ngpus=2, cache=False, **SHAPES)
    partitioned = tofu.partition(model, ngpus=2, cache=False, undescribed="replicate", **SHAPES)
    assert partitioned.plan.operators["both"] == (None,)
    assert partitioned.plan.operators["twofold"] != (None,)


def test_a_description_of_another_rank_names_the_operator(descriptions):
    descriptions["tanh"] = DESCRIPTIONS.describe(lambda data: lambda b: tanh(data[b]), ("tanh",))
    model = classifier(mx.sym.tanh(data(), name="squashed"))
    shape = re.escape(str(SHAPES["data"]))
    with pytest.raises(
        tofu.DescriptionError,
        match=rf"tanh squashed of {shape}: .* 2 dimensions \(described in .*:\d+\).*undescribed=\"replicate\"",
    ):
        tofu.partition(model, ngpus=2, cache=False, **SHAPES)
    partitioned = tofu.partition(model, ngpus=2, cache=False, undescribed="replicate", **SHAPES)
    assert partitioned.plan.operators["squashed"] == (None,)


def test_inputs_read_for_their_shape_are_not_fetched(descriptions):
    """MXNet reads only the shape of the second input of reshape_like."""
    del descriptions["reshape_like"]
    like = mx.sym.Variable("like") * 3
    net = mx.sym.reshape_like(data() * 2, like, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2, name="reshaped")
    shapes = {"data": (64, 130), "like": (8, 8, 5)}
    split = tofu.partition(net, ngpus=2, cache=False, undescribed="replicate", **shapes)
    values = draw_values(net, shapes)
    run = run_step(split, shapes, values, {"data": "write", "like": "null"})
    assert run.training_bytes == split.plan.communication_bytes > 0


def test_batch_norms_may_share_a_fixed_gamma():
    scale = mx.sym.Variable("scale", shape=(6,))
    net = mx.sym.BatchNorm(mx.sym.BatchNorm(data(), gamma=scale, name="first"), gamma=scale, name="second")
    assert tofu.partition(net, 2, cache=False, data=(12, 6)).plan
