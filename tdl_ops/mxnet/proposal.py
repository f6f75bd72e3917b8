"""Proposals of detectors: the best boxes around all positions, without boxes that overlap a better box.

They can be split by sample only. Each box begins with the number of its sample. MXNet's kernel always counts samples
from 0, so Tofu's kernel replaces it on workers. Gradients are not written.
"""

import numpy as np

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, output, position, unwritten, where


def _list_anchors(stride, scales, ratios):
    """Return the boxes around the first position as (left, top, right, bottom), in whole pixels."""
    middle, sizes = (stride - 1) / 2, []
    for ratio in ratios:
        width = np.floor(np.sqrt(np.floor(stride * stride / ratio)) + 0.5)
        sizes += [(width * scale, np.floor(width * ratio + 0.5) * scale) for scale in scales]
    halves = (np.array(sizes) - 1) / 2
    return np.concatenate([middle - halves, middle + halves], 1)


def _transform(boxes, deltas, is_moved):
    if is_moved:
        return boxes + deltas
    size = boxes[:, 2:] - boxes[:, :2] + 1
    middle = boxes[:, :2] + (size - 1) / 2 + deltas[:, :2] * size
    halves = (np.exp(deltas[:, 2:]) * size - 1) / 2
    return np.concatenate([middle - halves, middle + halves], 1)


def _suppress(boxes, most, threshold):
    """Return the positions of the first `most` boxes that overlap no earlier box by more than `threshold`."""
    area = np.prod(boxes[:, 2:] - boxes[:, :2] + 1, 1)
    kept, waiting = [], np.arange(len(boxes))
    while len(waiting) and len(kept) < most:
        best, waiting = waiting[0], waiting[1:]
        kept.append(best)
        low, high = np.maximum(boxes[waiting, :2], boxes[best, :2]), np.minimum(boxes[waiting, 2:], boxes[best, 2:])
        inner = np.prod(np.maximum(high - low + 1, 0), 1)
        waiting = waiting[inner <= threshold * (area[best] + area[waiting] - inner)]
    return kept


# MXNet's kernel refuses to compute the scores alone.
@op("_contrib_Proposal", "_contrib_MultiProposal", concrete=True, needs={1: (0,)})
def proposal(
    cls_prob,
    bbox_pred,
    im_info,
    *,
    output_shapes,
    rpn_pre_nms_top_n=6000,
    rpn_post_nms_top_n=300,
    threshold=0.7,
    rpn_min_size=16,
    scales=(4.0, 8.0, 16.0, 32.0),
    ratios=(0.5, 1.0, 2.0),
    feature_stride=16,
    iou_loss=False,
    first=0,
):
    def propose(scores, deltas, info):
        """Return the boxes of one sample and their scores. Boxes are repeated if there are too few."""
        _, height, width = scores.shape
        anchors = _list_anchors(feature_stride, scales, ratios)
        count, (y, x) = len(anchors), np.mgrid[:height, :width]
        cells = np.stack([x, y, x, y], -1)[:, :, None] * feature_stride
        scores = scores[count:].transpose(1, 2, 0).reshape(-1).copy()
        deltas = deltas.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
        boxes = _transform((cells + anchors).reshape(-1, 4), deltas, iou_loss)
        boxes = np.clip(boxes, 0, np.tile(info[1::-1] - 1, 2))
        outside = (y >= int(info[0] / feature_stride)) | (x >= int(info[1] / feature_stride))
        scores[np.repeat(outside.reshape(-1), count)] = -1
        least = rpn_min_size * info[2]
        small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(1)
        boxes[small] += np.array([-1, -1, 1, 1]) * least / 2
        scores[small] = -1
        most = rpn_pre_nms_top_n if rpn_pre_nms_top_n > 0 else len(boxes)
        order = np.argsort(-scores, kind="stable")[:most]
        kept = _suppress(boxes[order], min(rpn_post_nms_top_n, len(order)), threshold)
        chosen = order[[kept[n % len(kept)] for n in range(rpn_post_nms_top_n)]]
        return np.concatenate([boxes[chosen], scores[chosen, None]], 1)

    proposals = Opaque(propose, "proposals")
    of_sample = lambda tensor, b: tensor[(b, *[slice(None)] * (tensor.ndim - 1))]
    found = lambda b: proposals(*(of_sample(tensor, b) for tensor in (cls_prob, bbox_pred, im_info)))
    boxes = lambda b, p, w: where(position(w) == 0, position(b) + first, found(b)[p, w - 1])
    results = (
        output("(b p) w", boxes, {"p": rpn_post_nms_top_n, "w": 5}),
        output("(b p) one", lambda b, p, one: found(b)[p, one + 4], {"p": rpn_post_nms_top_n, "one": 1}),
    )
    return results[: len(output_shapes)]


# This operator replaces MultiProposal. It gets the number of a worker's first sample.
op(
    "_tofu_multi_proposal",
    concrete=True,
    needs={1: (0,)},
    bound={"first": lambda local: local.start("b")},
    starts=("b",),
)(proposal.function)


@op("_backward__contrib_Proposal", "_backward__contrib_MultiProposal")
def backward_proposal():
    return unwritten("b k y x"), unwritten("b q y x"), unwritten("b three")
