"""Boxes of detectors: overlaps, suppression, matching and coding. Opaque in a sample; gradients are zero where not said otherwise.

Coordinates are the least x and y and the greatest ones (corner), or the middle and width and height (center).
"""

from __future__ import annotations

import numpy as np

from tdl_ops.factorization import apply
from tofu.tdl import Any, Opaque, exp, log, minimum, op, output, position, trunc, unread, where

suppress = Opaque(name="box_nms")


def _corners(box, is_center):
    """The least and the greatest x and y."""
    first, second = box[:2], box[2:]
    return (first - second / 2, first + second / 2) if is_center else (first, second)


def _overlap(one, other, is_center):
    """The area of the intersection over that of the union."""
    (low, high), (least, most) = _corners(one, is_center), _corners(other, is_center)
    inner = np.prod(np.maximum(np.minimum(high, most) - np.maximum(low, least), 0))
    return inner / (np.prod(high - low) + np.prod(most - least) - inner) if inner > 0 else 0.0


@op("_contrib_box_iou")
def box_iou(lhs, rhs, *, format="corner"):
    overlap = Opaque(lambda one, other: _overlap(one, other, format == "center"), "overlap")
    split = lhs.ndim - 1
    return lambda *i: overlap(lhs[(*i[:split], slice(None))], rhs[(*i[split:], slice(None))])[()]


@op("_backward_contrib_box_iou")
def backward_box_iou(d_out):
    shape = lambda: unread(d_out[(Any,) * d_out.ndim])
    return output("*one", lambda *one: shape()), output("*other", lambda *other: shape())


@op("_contrib_box_nms")
def box_nms(data):
    result = lambda b: suppress(data[(*b, slice(None), slice(None))])
    place = lambda b: sum((position(v) for v in b), 0.0)  # counted over all samples
    return (
        output("*b n w", lambda *v: result(v[:-2])[0, v[-2], v[-1]]),
        output("*b n one", lambda *v: result(v[:-2])[1, v[-2], v[-1]] + place(v[:-2])),
    )


@op("_backward_contrib_box_nms")
def backward_box_nms(d_out, d_places, out, places):
    gradient = Opaque(name="box_nms_gradient")
    everything = lambda tensor: tensor[(slice(None),) * tensor.ndim]
    return lambda *v: gradient(*map(everything, (d_out, d_places, out, places)))[v]


def _match(scores, threshold, is_ascend, topk):
    """The column of each row and the row of each column, the best pairs first; -1 for those without."""
    rows, columns = np.full(scores.shape[0], -1.0), np.full(scores.shape[1], -1.0)
    order = np.argsort(scores.ravel() if is_ascend else -scores.ravel(), kind="stable")
    for row, column in zip(*np.unravel_index(order, scores.shape), strict=True):
        is_good = scores[row, column] < threshold if is_ascend else scores[row, column] > threshold
        if not is_good or 0 < topk < (rows >= 0).sum():  # one more than asked for
            break
        if rows[row] < 0 and columns[column] < 0:
            rows[row], columns[column] = column, row
    return rows, columns


@op("_contrib_bipartite_matching")
def bipartite_matching(data, *, threshold, is_ascend=False, topk=-1):
    match = lambda scores: _match(scores, threshold, is_ascend, topk)
    return apply(match, data, names="n", result=0), apply(match, data, names="m", result=1)


@op("_backward_contrib_bipartite_matching")
def backward_bipartite_matching(d_rows, d_columns):
    return lambda *v: unread(d_rows[v[:-1]]) + unread(d_columns[(*v[:-2], v[-1])])


def _choose(index, values):
    return sum(where(position(index) == n, value, 0.0) for n, value in enumerate(values))


def _middle(box, is_center):
    """Middle x and y, width and height from the four numbers of a box."""
    x, y, z, w = box
    return (x, y, z, w) if is_center else ((x + z) / 2, (y + w) / 2, z - x, w - y)


@op("_contrib_box_decode")
def box_decode(data, anchors, *, std0=1.0, std1=1.0, std2=1.0, std3=1.0, clip=-1.0, format="center"):
    grown = lambda d: exp(minimum(d, clip) if clip > 0 else d)

    def corners(b, n):
        x, y, w, h = _middle([anchors[0, n, c] for c in range(4)], format == "center")
        dx, dy, dw, dh = (data[b, n, c] * std for c, std in enumerate((std0, std1, std2, std3)))
        x, y, w, h = dx * w + x, dy * h + y, grown(dw) * w / 2, grown(dh) * h / 2
        return x - w, y - h, x + w, y + h

    return lambda b, n, c: _choose(c, corners(b, n))


@op("_contrib_box_encode")
def box_encode(samples, matches, anchors, refs, means, stds):
    is_used = lambda b, n: samples[b, n] > 0.5

    def targets(b, n):
        x, y, w, h = _middle([anchors[b, n, c] for c in range(4)], is_center=False)
        own = [refs[b, Any(trunc(matches[b, n])), c] for c in range(4)]
        rx, ry, rw, rh = _middle(own, is_center=False)
        values = (rx - x) / w, (ry - y) / h, log(rw / w), log(rh / h)
        return [(value - means[c]) / stds[c] for c, value in enumerate(values)]

    return (
        lambda b, n, c: where(is_used(b, n), _choose(c, targets(b, n)), 0.0),
        lambda b, n, c: where(is_used(b, n), _choose(c, [1.0] * 4), 0.0),
    )
