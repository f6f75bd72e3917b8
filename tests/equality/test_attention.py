"""Attention over interleaved projections, split by heads: the numbers of one device, and as few bytes as heads allow."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare
from tests.models.plain import Model
from tests.shared.random_plans import random_plan
from tests.shared.training import bind_partitioned, random_values, run_single

TIME, BATCH, HEADS, DEPTH = 6, 2, 4, 3
WIDTH = HEADS * DEPTH
TOLERANCE = 1e-5  # MXNet has these kernels for float32 alone
contrib = mx.sym.contrib


def dense(data, width, name):
    return mx.sym.FullyConnected(data, num_hidden=width, flatten=False, no_bias=True, name=name)


def attend(data):
    """Self-attention with a bias for each pair of times, which all samples and heads share."""
    projected = dense(data, 3 * WIDTH, "project")
    scores = contrib.interleaved_matmul_selfatt_qk(projected, heads=HEADS, name="scores")
    scores = mx.sym.broadcast_add(1.5 * scores, mx.sym.Variable("bias_weight", shape=(1, TIME, TIME)))
    weights = mx.sym.Dropout(mx.sym.softmax(scores, axis=2, name="shares"), p=0.0, name="drop")
    sums = contrib.interleaved_matmul_selfatt_valatt(projected, weights, heads=HEADS, name="sums")
    return dense(sums, WIDTH, "mix"), weights


def two_sequences() -> Model:
    """An attention over itself, whose weights are an output too, and one over a memory."""
    net, weights = attend(mx.sym.Variable("data"))
    memory = dense(mx.sym.Variable("memory_data"), 2 * WIDTH, "memory")
    scores = contrib.interleaved_matmul_encdec_qk(net, memory, heads=HEADS, name="other_scores")
    shares = mx.sym.softmax(scores, axis=-1, name="other_shares")
    net = contrib.interleaved_matmul_encdec_valatt(memory, shares, heads=HEADS, name="other_sums")
    by_time = mx.sym.transpose(weights, axes=(1, 0, 2))  # who reads weights as MXNet has them
    outputs = [mx.sym.MakeLoss(mx.sym.sin(net)), mx.sym.BlockGrad(weights), mx.sym.BlockGrad(by_time)]
    return Model(mx.sym.Group(outputs), {"data": (TIME, BATCH, WIDTH), "memory_data": (5, BATCH, WIDTH)}, 3)


def masked() -> Model:
    """Self-attention as BERT has it: of every sequence its first times count."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("length_label", shape=(BATCH * HEADS, TIME))
    projected = dense(data, 3 * WIDTH, "project")
    scores = contrib.interleaved_matmul_selfatt_qk(projected, heads=HEADS, name="scores")
    whole = mx.sym.Cast(lengths + 1, dtype="int32")
    weights = mx.sym.softmax(scores, length=whole, use_length=True, axis=-1, name="shares")
    net = contrib.interleaved_matmul_selfatt_valatt(projected, weights, heads=HEADS, name="sums")
    shapes = {"data": (TIME, BATCH, WIDTH), "length_label": (BATCH * HEADS, TIME)}
    return Model(mx.sym.MakeLoss(mx.sym.sin(net)), shapes, 5)


@pytest.mark.parametrize(("build", "workers"), [(two_sequences, 4), (two_sequences, 6), (masked, 4)])
def test_plans_equal_one_device(build, workers):
    model = build()
    values = random_values(model, "float32")
    step, weights = run_single(model, values, "float32", 2)
    default = bind_partitioned(model, workers, "float32")
    compare(default, values, step, weights, 2, TOLERANCE)
    for seed in range(3):
        plan = random_plan(default.partition, seed)
        compare(bind_partitioned(model, workers, "float32", plan), values, step, weights, 2, TOLERANCE)


def test_heads_are_split_where_there_are_fewer_samples_than_workers():
    plan = bind_partitioned(two_sequences(), 4, "float32").partition.plan
    for name in ("scores", "sums", "other_scores", "other_sums", "scores_backward", "other_sums_backward"):
        assert set(plan.operators[name]) == {"h"}, name
    assert set(plan.operators["shares"]) == {"i1"}


def test_a_monitor_sees_scores_as_mxnet_has_them():
    model = two_sequences()
    shown = {}
    executor = tofu.partition(model.symbol, 2, hints={"scores": "h"}).simple_bind(mx.cpu(), **model.shapes)

    def note(name, array):
        name = name.decode() if isinstance(name, bytes) else name
        shown[name] = mx.nd.NDArray(mx.base.ctypes.cast(array, mx.base.NDArrayHandle), writable=False).shape

    executor.set_monitor_callback(note)
    executor.forward(is_train=True)
    mx.nd.waitall()
    assert shown["scores_output"] == shown["shares_output"] == (BATCH * HEADS, TIME, TIME)
    assert executor.outputs[1].shape == (BATCH * HEADS, TIME, TIME)


def test_scores_that_weigh_nothing_stay_as_they_are():
    scores = contrib.interleaved_matmul_selfatt_qk(mx.sym.Variable("data"), heads=HEADS, name="scores")
    plan = tofu.partition(mx.sym.MakeLoss(mx.sym.sin(scores)), 2, data=(TIME, BATCH, 3 * WIDTH)).plan
    assert len(plan.tensors["scores_output"]) == 1
    assert plan.operators["scores"] == ("b",)


def test_other_heads_stay_merged():
    """Weights of other heads than those of the scores are no part of them."""
    data = mx.sym.Variable("data")
    scores = contrib.interleaved_matmul_selfatt_qk(data, heads=HEADS, name="scores")
    two = mx.sym.reshape(scores, shape=(BATCH * HEADS, TIME, TIME))
    sums = contrib.interleaved_matmul_selfatt_valatt(data, two, heads=HEADS, name="sums")
    values = np.random.RandomState(0).uniform(-1, 1, (TIME, BATCH, 3 * WIDTH)).astype("float32")
    found, expected = (
        symbol.bind(mx.cpu(), {"data": mx.nd.array(values)}).forward()[0].asnumpy()
        for symbol in (tofu.partition(sums, 2), sums)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
