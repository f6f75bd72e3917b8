"""Boxes of detectors: overlaps, suppression, matching and coding. Opaque in a sample; gradients are zero where not said otherwise.

Coordinates are the least x and y and the greatest ones (corner), or the middle and width and height (center).
"""

from __future__ import annotations

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.factorization import apply
from tofu.tdl import Any, Opaque, exp, log, minimum, output, position, trunc, unread, where


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


def _convert(boxes, is_center, wants_center):
    """Boxes by the middle and size, or by their corners."""
    if is_center == wants_center:
        return boxes
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate(
        [(first + second) / 2, second - first] if wants_center else [first - second / 2, first + second / 2], 1
    )


def _suppress(samples, settings):
    """Of each sample the rows that stay, the best first, then rows of -1; beside each its place in the whole array, or -1."""
    result, (count, width) = np.full((*samples.shape[:2], samples.shape[2] + 1), -1.0), samples.shape[1:]
    start, of_class, is_center = settings["coord_start"], settings["id_index"], settings["in_format"] == "center"
    for sample, rows in enumerate(samples):
        corners = slice(start, start + 4)
        scores = rows[:, settings["score_index"]]
        is_good = scores > settings["valid_thresh"]
        if of_class >= 0:
            is_good &= rows[:, of_class] != settings["background_id"]
        order = [n for n in np.argsort(-scores, kind="stable") if is_good[n]]
        order = order[: settings["topk"]] if settings["topk"] > 0 else order
        kept = list[int]()
        for n in order:
            rivals = [
                m for m in kept if of_class < 0 or settings["force_suppress"] or rows[m, of_class] == rows[n, of_class]
            ]
            overlaps = [_overlap(rows[n, corners], rows[m, corners], is_center) for m in rivals]
            if max(overlaps, default=0.0) <= settings["overlap_thresh"]:
                kept.append(n)
        found = rows[kept].copy()
        found[:, corners] = _convert(found[:, corners], is_center, settings["out_format"] == "center")
        result[sample, : len(kept), :width], result[sample, : len(kept), width] = found, np.array(kept) + sample * count
    return result


@op("_contrib_box_nms")
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
    settings = {
        "overlap_thresh": overlap_thresh,
        "valid_thresh": valid_thresh,
        "topk": topk,
        "coord_start": coord_start,
        "score_index": score_index,
        "id_index": id_index,
        "background_id": background_id,
        "force_suppress": force_suppress,
        "in_format": in_format,
        "out_format": out_format,
    }

    def suppress(whole):
        found = _suppress(whole.reshape(-1, *whole.shape[-2:]), settings)
        return found.reshape(*whole.shape[:-1], whole.shape[-1] + 1)

    result = Opaque(suppress, "box_nms")(data[(slice(None),) * data.ndim])  # places count over all samples
    place = output("*b n one", lambda *v: result[(*v[:-1], v[-1] + data.shape[-1])])
    return output("*b n w", lambda *v: result[v]), place


def _return_to_places(d_out, places):
    """Each row's gradient in the place that the row comes from."""
    gradient, rows = np.zeros_like(d_out).reshape(-1, d_out.shape[-1]), d_out.reshape(-1, d_out.shape[-1])
    for row, place in zip(rows, places.reshape(-1).astype(int), strict=True):
        if place >= 0:
            gradient[place] += row
    return gradient.reshape(d_out.shape)


@op("_backward_contrib_box_nms")
def backward_box_nms(d_out, d_places, out, places):
    gradient = Opaque(_return_to_places, "box_nms_gradient")
    everything = lambda tensor: tensor[(slice(None),) * tensor.ndim]
    shape = lambda: sum(unread(tensor[(Any,) * tensor.ndim]) for tensor in (d_places, out))
    return lambda *v: gradient(everything(d_out), everything(places))[v] + shape()


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
