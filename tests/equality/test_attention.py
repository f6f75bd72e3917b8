import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel
from tests.shared.training import bind_partitioned

TIME, BATCH, HEADS, DEPTH = 6, 2, 4, 3
WIDTH = HEADS * DEPTH
contrib = mx.sym.contrib


def dense(data, width, name):
    return mx.sym.FullyConnected(data, num_hidden=width, flatten=False, no_bias=True, name=name)


def attend(data):
    """Self-attention with a bias per pair of positions that all samples and heads share."""
    projected = dense(data, 3 * WIDTH, "project")
    scores = contrib.interleaved_matmul_selfatt_qk(projected, heads=HEADS, name="scores")
    scores = mx.sym.broadcast_add(1.5 * scores, mx.sym.Variable("bias_weight", shape=(1, TIME, TIME)))
    weights = mx.sym.Dropout(mx.sym.softmax(scores, axis=2, name="shares"), p=0.0, name="drop")
    sums = contrib.interleaved_matmul_selfatt_valatt(projected, weights, heads=HEADS, name="sums")
    return dense(sums, WIDTH, "mix"), weights


def two_sequences() -> PlainModel:
    net, weights = attend(mx.sym.Variable("data"))
    memory = dense(mx.sym.Variable("memory_data"), 2 * WIDTH, "memory")
    scores = contrib.interleaved_matmul_encdec_qk(net, memory, heads=HEADS, name="other_scores")
    shares = mx.sym.softmax(scores, axis=-1, name="other_shares")
    net = contrib.interleaved_matmul_encdec_valatt(memory, shares, heads=HEADS, name="other_sums")
    by_time = mx.sym.transpose(weights, axes=(1, 0, 2))
    outputs = [mx.sym.MakeLoss(mx.sym.sin(net)), mx.sym.BlockGrad(weights), mx.sym.BlockGrad(by_time)]
    return PlainModel(mx.sym.Group(outputs), {"data": (TIME, BATCH, WIDTH), "memory_data": (5, BATCH, WIDTH)}, 3)


def masked() -> PlainModel:
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("length_label", shape=(BATCH * HEADS, TIME))
    projected = dense(data, 3 * WIDTH, "project")
    scores = contrib.interleaved_matmul_selfatt_qk(projected, heads=HEADS, name="scores")
    whole = mx.sym.Cast(lengths + 1, dtype="int32")
    weights = mx.sym.softmax(scores, length=whole, use_length=True, axis=-1, name="shares")
    net = contrib.interleaved_matmul_selfatt_valatt(projected, weights, heads=HEADS, name="sums")
    shapes = {"data": (TIME, BATCH, WIDTH), "length_label": (BATCH * HEADS, TIME)}
    return PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), shapes, 5)


@pytest.mark.parametrize(("build", "workers"), [(two_sequences, 4), (two_sequences, 6), (masked, 4)])
def test_plans_equal_one_device(build, workers):
    """MXNet has these kernels in float32 only."""
    compare_split(build(), workers, steps=2, dtype="float32", randoms=3)


def test_few_samples_are_split_by_heads():
    plan = bind_partitioned(two_sequences(), 4, "float32").partition.plan
    for name in ("scores", "sums", "other_scores", "other_sums", "scores_backward", "other_sums_backward"):
        assert set(plan.operators[name]) == {"h"}, name
    assert set(plan.operators["shares"]) == {"i1"}


def test_a_monitor_sees_scores_in_mxnets_layout():
    model = two_sequences()
    executor = tofu.partition(model.symbol, 2, hints={"scores": "h"}).simple_bind(mx.cpu(), **model.shapes)
    monitor = mx.mon.Monitor(1, lambda array: mx.nd.array(array.shape))
    monitor.install(executor)
    monitor.tic()
    executor.forward(is_train=True)
    shown = {name: tuple(shape.asnumpy()) for _, name, shape in monitor.queue}
    assert shown["scores_output"] == shown["shares_output"] == (BATCH * HEADS, TIME, TIME)
    assert executor.outputs[1].shape == (BATCH * HEADS, TIME, TIME)


def test_scores_without_attention_keep_their_layout():
    scores = contrib.interleaved_matmul_selfatt_qk(mx.sym.Variable("data"), heads=HEADS, name="scores")
    plan = tofu.partition(mx.sym.MakeLoss(mx.sym.sin(scores)), 2, data=(TIME, BATCH, 3 * WIDTH)).plan
    assert len(plan.tensors["scores_output"]) == 1
    assert plan.operators["scores"] == ("b",)


@pytest.mark.parametrize(
    "copy", [lambda x: mx.sym.reshape(x, shape=(0, 0, -1)), lambda x: mx.sym.transpose(x, axes=(0, 1, 2))]
)
def test_other_heads_stay_merged(copy):
    data = mx.sym.Variable("data")
    scores = contrib.interleaved_matmul_selfatt_qk(data, heads=HEADS, name="scores")
    two = copy(scores)
    sums = contrib.interleaved_matmul_selfatt_valatt(data, two, heads=HEADS, name="sums")
    values = np.random.RandomState(0).uniform(-1, 1, (TIME, BATCH, 3 * WIDTH)).astype("float32")
    found, expected = (
        symbol.bind(mx.cpu(), {"data": mx.nd.array(values)}).forward()[0].asnumpy()
        for symbol in (tofu.partition(sums, 2), sums)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
