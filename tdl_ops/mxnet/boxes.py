"""Operators on the boxes of detectors: overlap, suppression, matching and coding.

They can be split by sample only. A box is (left, top, right, bottom), or (center x, center y, width, height) if
`is_center` is True.
"""

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.factorization import apply
from tofu.tdl import Any, Opaque, exp, log, merge, minimum, output, position, trunc, unread, where


def _corners(box, is_center):
    first, second = box[:2], box[2:]
    return (first - second / 2, first + second / 2) if is_center else (first, second)


def _overlap(one, other, is_center):
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


def _convert(boxes, is_center, wants_center):
    if is_center == wants_center:
        return boxes
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate(
        [(first + second) / 2, second - first] if wants_center else [first - second / 2, first + second / 2], 1
    )


SAMPLES = tuple(f"b{d}" for d in range(8))  # positions are counted over all of these dimensions


def _count_before(samples, rows):
    return position(merge(*samples)) * position(rows) if samples else 0.0


@op("_contrib_box_nms", counts=SAMPLES)
def box_nms(
    data,
    *,
    overlap_thresh=0.5,
    valid_thresh=0.0,
    topk=-1,
    coord_start=2,
    score_index=1,
    id_index=-1,
    background_id=-1,
    force_suppress=False,
    in_format="corner",
    out_format="corner",
):
    corners, is_center = slice(coord_start, coord_start + 4), in_format == "center"

    def suppress(rows):
        """Return the boxes that overlap no better box, the best first. Rows of -1 follow.

        A column with each box's original row is added.
        """
        width, result = rows.shape[1], np.full((len(rows), rows.shape[1] + 1), -1.0)
        scores, classes = rows[:, score_index], rows[:, max(id_index, 0)]
        is_good = scores > valid_thresh
        if id_index >= 0:
            is_good &= classes != background_id
        order = [n for n in np.argsort(-scores, kind="stable") if is_good[n]]
        kept = list[int]()
        for n in order[:topk] if topk > 0 else order:
            rivals = [m for m in kept if id_index < 0 or force_suppress or classes[m] == classes[n]]
            overlaps = [_overlap(rows[n, corners], rows[m, corners], is_center) for m in rivals]
            if max(overlaps, default=0.0) <= overlap_thresh:
                kept.append(n)
        found = rows[kept].copy()
        found[:, corners] = _convert(found[:, corners], is_center, out_format == "center")
        result[: len(kept), :width], result[: len(kept), width] = found, kept
        return result

    suppressed = Opaque(suppress, "box_nms")
    found = lambda b: suppressed(data[(*b, slice(None), slice(None))])

    def place(b, n, one):
        own = found(b)[n, one + data.shape[-1]]
        return where(own >= 0, own + _count_before(b, data.shape[-2]), -1.0)

    return (
        output("*b n w", lambda *v: found(v[:-2])[v[-2], v[-1]]),
        output("*b n one", lambda *v: place(v[:-2], v[-2], v[-1]), {"one": 1}),
    )


def _return_to_places(d_out, places, before):
    gradient = np.zeros_like(d_out)
    for row, place in zip(d_out, places[:, 0].astype(int), strict=True):
        if place >= 0:
            gradient[place - int(before)] += row
    return gradient


@op("_backward_contrib_box_nms", counts=SAMPLES)
def backward_box_nms(d_out, d_places, out, places):
    gradient = Opaque(_return_to_places, "box_nms_gradient")
    rows = lambda tensor, b: tensor[(*b, slice(None), slice(None))]
    shape = lambda b: sum(unread(tensor[(*b, Any, Any)]) for tensor in (d_places, out))

    def value(b, n, w):
        return gradient(rows(d_out, b), rows(places, b), _count_before(b, d_out.shape[-2]))[n, w] + shape(b)

    return output("*b n w", lambda *v: value(v[:-2], v[-2], v[-1]))


def _match(scores, threshold, is_ascend, topk):
    """Pair rows with columns, best scores first. Return each row's column and each column's row, or -1."""
    rows, columns = np.full(scores.shape[0], -1.0), np.full(scores.shape[1], -1.0)
    order = np.argsort(scores.ravel() if is_ascend else -scores.ravel(), kind="stable")
    for row, column in zip(*np.unravel_index(order, scores.shape), strict=True):
        is_good = scores[row, column] < threshold if is_ascend else scores[row, column] > threshold
        if not is_good or 0 < topk < (rows >= 0).sum():  # as in MXNet, topk + 1 pairs match
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
