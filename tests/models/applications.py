from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np

from tests.models.normalized import batch_norm, convolution, relu
from tests.models.plain import PlainModel
from tests.models.recurrent import HIDDEN, STEPS, VOCABULARY


def gluon_language_model(dtype: str, batch: int = 8) -> PlainModel:
    layer = mx.gluon.rnn.LSTM(HIDDEN, num_layers=2, dropout=0, layout="NTC", input_size=HIDDEN, prefix="lstm_")
    layer.cast(dtype)
    table = mx.sym.Variable("table_weight", shape=(VOCABULARY, HIDDEN))
    words = mx.sym.Embedding(
        mx.sym.Variable("tokens"), table, input_dim=VOCABULARY, output_dim=HIDDEN, dtype=dtype, name="embed"
    )
    states = [mx.sym.Variable(f"begin_state_{i}") for i in range(2)]  # (batch, layers, HIDDEN)
    words = mx.sym.Dropout(words, p=0)  # every device would draw its own numbers
    outputs, _ = layer(words, [mx.sym.SwapAxis(state, dim1=0, dim2=1) for state in states])
    hidden = mx.sym.Reshape(outputs, shape=(-1, HIDDEN))
    scores = mx.sym.FullyConnected(hidden, num_hidden=VOCABULARY, weight=table, name="decoder")
    labels = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    shapes = {"tokens": (batch, STEPS), "softmax_label": (batch, STEPS)}
    shapes.update({state.name: (batch, 2, HIDDEN) for state in states})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(scores, labels)
    return PlainModel(mx.sym.MakeLoss(loss, name="loss"), shapes, VOCABULARY)


def ssd(dtype: str, batch: int = 8) -> PlainModel:
    net, scales = mx.sym.Variable("data"), []
    for i, filters in enumerate((6, 8, 10, 8)):
        net = relu(convolution(net, filters, 3, 1, f"conv{i}"), f"relu{i}")
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
        scales.append(net)
    scale = mx.sym.Variable("scale_gamma", shape=(1, 8, 1, 1))
    scales[1] = mx.sym.broadcast_mul(scale, mx.sym.L2Normalization(scales[1], mode="channel"))
    classes, anchors = 3, 4
    boxes, scores, priors = [], [], []
    for i, net in enumerate(scales[1:]):
        for outputs, width, name in ((boxes, 4, "boxes"), (scores, classes, "scores")):
            found = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=anchors * width, name=f"{name}{i}")
            outputs.append(mx.sym.Flatten(mx.sym.transpose(found, axes=(0, 2, 3, 1))))
        sizes = (0.2 + 0.25 * i, 0.3 + 0.25 * i)
        priors.append(mx.sym.contrib.MultiBoxPrior(net, sizes=sizes, ratios=(1, 2, 0.5), clip=True))
    priors = mx.sym.Concat(*priors, dim=1, name="priors")
    offsets = mx.sym.Concat(*boxes, dim=1, name="offsets")
    scores = mx.sym.Reshape(mx.sym.Concat(*scores, dim=1), shape=(0, -1, classes))
    scores = mx.sym.transpose(scores, axes=(0, 2, 1), name="scores")
    target = mx.sym.contrib.MultiBoxTarget(
        *(priors, mx.sym.Variable("boxes_label"), scores),
        overlap_threshold=0.5,
        negative_mining_ratio=3,
        negative_mining_thresh=0.5,
        name="target",
    )
    probabilities = mx.sym.SoftmaxOutput(
        *(scores, target[2]), ignore_label=-1, use_ignore=True, multi_output=True, normalization="valid", name="class"
    )
    missed = mx.sym.smooth_l1(target[1] * (offsets - target[0]), scalar=1.0)
    loss = mx.sym.MakeLoss(missed, normalization="valid", name="place")
    detected = mx.sym.contrib.MultiBoxDetection(probabilities, offsets, priors, nms_threshold=0.5, name="detected")
    detected = mx.sym.sum(detected, axis=1)  # rounding decides the order of equal scores
    heads = [probabilities, loss, mx.sym.BlockGrad(target[2]), mx.sym.BlockGrad(detected)]
    shapes = {"data": (batch, 3, 32, 32), "boxes_label": (batch, 2, 5)}
    given = {"boxes_label": draw_boxes(batch, 2, classes - 1)}
    return PlainModel(mx.sym.Group(heads), shapes, classes, given=given, is_single_precision=True)


def faster_rcnn(batch: int = 2) -> PlainModel:
    """Proposals have no gradient."""
    image, kept = 64, 12
    net = mx.sym.Variable("data")
    for i, filters in enumerate((6, 8, 8)):
        net = relu(convolution(net, filters, 3, 2, f"conv{i}"), f"relu{i}")
    side, anchors = image // 8, 2
    found = relu(convolution(net, 10, 3, 1, "found"), "found_relu")
    scores = mx.sym.Convolution(found, kernel=(1, 1), num_filter=2 * anchors, name="scores")
    offsets = mx.sym.Convolution(found, kernel=(1, 1), num_filter=4 * anchors, name="offsets")
    shares = mx.sym.softmax(mx.sym.Reshape(scores, shape=(0, 2, -1, side)), axis=1)
    shares = mx.sym.Reshape(shares, shape=(0, 2 * anchors, -1, side), name="shares")
    anchored = {"feature_stride": 8, "scales": (2, 4), "ratios": (1,), "rpn_min_size": 4, "rpn_post_nms_top_n": kept}
    regions = mx.sym.contrib.MultiProposal(shares, offsets, mx.sym.Variable("image_label"), name="regions", **anchored)
    pooled = mx.sym.ROIPooling(net, regions, pooled_size=(3, 3), spatial_scale=1 / 8, name="pooled")
    hidden = relu(mx.sym.FullyConnected(pooled, num_hidden=20, name="hidden"), "hidden_relu")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    classes = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=5, name="classes"), label, name="softmax")
    losses = [mx.sym.MakeLoss(mx.sym.square(tensor), name=f"{tensor.name}_loss") for tensor in (scores, offsets)]
    shapes = {"data": (batch, 3, image, image), "image_label": (batch, 3), "softmax_label": (batch, kept)}
    given = {"image_label": np.array([[image, image, 1]] * batch)}
    return PlainModel(mx.sym.Group([classes, *losses]), shapes, 5, given=given, is_single_precision=True)


def draw_boxes(batch: int, objects: int, classes: int) -> np.ndarray:
    """Return a class and the corners of a box for each object of each image, of shape (batch, objects, 5)."""
    rng = np.random.RandomState(3)
    corner, size = rng.uniform(0, 0.5, (batch, objects, 2)), rng.uniform(0.2, 0.5, (batch, objects, 2))
    return np.concatenate([rng.randint(0, classes, (batch, objects, 1)), corner, corner + size], axis=2)


def generate(noise: Any) -> Any:
    net = noise
    for i, (filters, stride, pad) in enumerate(((12, 1, 0), (8, 2, 1), (3, 2, 1))):
        window = {"kernel": (4, 4), "stride": (stride,) * 2, "pad": (pad,) * 2}
        net = mx.sym.Deconvolution(net, num_filter=filters, no_bias=True, **window, name=f"g{i}")
        net = relu(batch_norm(net, f"g_norm{i}"), f"g_relu{i}") if i < 2 else mx.sym.Activation(net, act_type="tanh")
    return net


def discriminate(images: Any) -> Any:
    net = images
    for i, filters in enumerate((6, 10)):
        net = mx.sym.Convolution(
            net, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=filters, no_bias=True, name=f"d{i}"
        )
        net = mx.sym.LeakyReLU(batch_norm(net, f"d_norm{i}") if i else net, act_type="leaky", slope=0.2)
    net = mx.sym.Convolution(net, kernel=(4, 4), num_filter=1, no_bias=True, name="d_last")
    return mx.sym.LogisticRegressionOutput(mx.sym.Flatten(net), mx.sym.Variable("real_label"), name="real")


def generator(batch: int = 9) -> PlainModel:
    return PlainModel(discriminate(generate(mx.sym.Variable("data"))), {"data": (batch, 10, 1, 1)}, 2)


def unet(batch: int = 4) -> PlainModel:

    def twice(net: Any, filters: int, name: str) -> Any:
        for i in range(2):
            net = relu(batch_norm(convolution(net, filters, 3, 1, f"{name}{i}"), f"{name}_norm{i}"), f"{name}_relu{i}")
        return net

    skipped, net = [], mx.sym.Variable("data")
    for i, filters in enumerate((4, 6)):
        skipped.append(twice(net, filters, f"down{i}"))
        net = mx.sym.Pooling(skipped[-1], kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = twice(net, 8, "bottom")
    for i, filters in enumerate((6, 4)):
        if i:
            net = mx.sym.UpSampling(net, scale=2, sample_type="nearest", name=f"up{i}")
        else:
            net = mx.sym.Deconvolution(net, kernel=(2, 2), stride=(2, 2), num_filter=filters, name=f"up{i}")
        net = twice(mx.sym.Concat(net, skipped[1 - i], dim=1), filters, f"level{i}")
    net = mx.sym.Convolution(net, kernel=(1, 1), num_filter=3, name="classes")
    loss = mx.sym.SoftmaxOutput(net, multi_output=True, normalization="valid", name="softmax")
    return PlainModel(loss, {"data": (batch, 3, 20, 24)}, 3)


APPLICATIONS: dict[str, Callable[[str], PlainModel]] = {
    "gluon_language_model": gluon_language_model,
    "ssd": ssd,
    "faster_rcnn": lambda _: faster_rcnn(),
    "dcgan_generator": lambda _: generator(),
    "unet": lambda _: unet(),
}
