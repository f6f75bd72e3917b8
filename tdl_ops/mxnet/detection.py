"""Layers of detectors: anchors, targets and detections. They are split by sample only. Gradients are zero."""

import numpy as np

from tdl_ops.mxnet import op
from tofu.tdl import Any, Opaque, output, unread, unwritten

targets, detections = Opaque(name="multibox_target"), Opaque(name="multibox_detection")


def _everything(tensor):
    return tensor[(slice(None),) * tensor.ndim]


def _shape_of(*tensors):
    return sum((unread(tensor[(Any,) * tensor.ndim]) for tensor in tensors), 0.0)


def _anchors(height, width, sizes, ratios, clip, steps, offsets):
    """Return the boxes around all positions: each size with the first ratio, and the first size with each other ratio."""
    step_y, step_x = (given if given > 0 else 1 / n for given, n in zip(steps, (height, width), strict=True))
    shapes = [(size, np.sqrt(ratios[0])) for size in sizes] + [(sizes[0], np.sqrt(ratio)) for ratio in ratios[1:]]
    halves = np.array([(size * height / width * root / 2, size / root / 2) for size, root in shapes])
    y, x = (np.arange(height) + offsets[0]) * step_y, (np.arange(width) + offsets[1]) * step_x
    middles = np.stack(np.meshgrid(x, y), -1)[:, :, None]
    boxes = np.concatenate([middles - halves, middles + halves], -1).reshape(1, -1, 4)
    return np.clip(boxes, 0, 1) if clip else boxes


@op("_contrib_MultiBoxPrior", concrete=True)
def multibox_prior(data, *, sizes=(1.0,), ratios=(1.0,), clip=False, steps=(-1.0, -1.0), offsets=(0.5, 0.5)):
    boxes = Opaque(lambda: _anchors(*data.shape[2:], sizes, ratios, clip, steps, offsets), "anchors")
    return lambda *i: boxes()[i] + _shape_of(data)


@op("_backward__contrib_MultiBoxPrior")
def backward_multibox_prior(d_out, data, out):
    return lambda b, c, y, x: unread(data[b, c, y, x]) + _shape_of(d_out, out)


@op("_contrib_MultiBoxTarget")
def multibox_target(anchor, label, cls_pred):
    result = lambda b: targets(_everything(anchor), label[b, :, :], cls_pred[b, :, :])
    return (*(lambda b, n, part=part: result(b)[part, n] for part in range(2)), lambda b, m: result(b)[2, m])


@op("_backward__contrib_MultiBoxTarget")
def backward_multibox_target():
    return unwritten("one n four"), unwritten("b m w"), output("b k n", lambda *i: 0.0)


@op("_contrib_MultiBoxDetection")
def multibox_detection(cls_prob, loc_pred, anchor):
    result = lambda b: detections(cls_prob[b, :, :], loc_pred[b, :], _everything(anchor))
    return lambda b, n, w: result(b)[n, w]


@op("_backward__contrib_MultiBoxDetection")
def backward_multibox_detection(d_out, cls_prob, loc_pred, anchor, out):
    return (
        lambda b, k, n: unread(cls_prob[b, k, n]) + unread(d_out[b, Any, Any]) + unread(out[b, Any, Any]),
        lambda b, m: unread(loc_pred[b, m]),
        output("one n four", lambda one, n, four: unread(anchor[one, n, four])),
    )
