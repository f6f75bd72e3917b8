"""Pooling of regions of interest. A region is the number of a sample, and a box.

Operators can be split by regions, `r`. Samples and space are not split. ROIPooling saves positions of maxima in the
worker's data, so its gradient must be split in the same way.
"""

import numpy as np

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Opaque, Sum, merge, output, position, where


def _bins(begin, size, bins, extent):
    """Divide one side of a region into bins. Return each bin's begin and end. Bins may overlap by rounding."""
    edges = np.arange(bins) * (size / bins), (np.arange(bins) + 1) * (size / bins)
    return np.stack(
        [np.clip(f(e) + begin, 0, extent).astype(int) for f, e in zip((np.floor, np.ceil), edges, strict=True)]
    )


def _pool(planes, region, pooled_size, spatial_scale):
    """Return the maximum of each bin and its position. An empty bin has 0 and -1."""
    plane = planes[int(region[0])]
    x0, y0, x1, y1 = np.floor(region[1:] * spatial_scale + 0.5).astype(int)
    rows = _bins(y0, max(y1 - y0 + 1, 1), pooled_size[0], plane.shape[0])
    columns = _bins(x0, max(x1 - x0 + 1, 1), pooled_size[1], plane.shape[1])
    values, places = np.zeros(pooled_size), np.full(pooled_size, -1.0)
    for y, x in np.ndindex(*pooled_size):
        block = plane[slice(*rows[:, y]), slice(*columns[:, x])]
        if block.size:
            row, column = np.unravel_index(np.argmax(block), block.shape)
            values[y, x] = block[row, column]
            places[y, x] = (rows[0, y] + row) * plane.shape[1] + columns[0, x] + column
    return values, places


@op("ROIPooling", counts=("c",))
def roi_pooling(data, rois, *, pooled_size, spatial_scale):
    pool = Opaque(lambda planes, region: np.stack(_pool(planes, region, pooled_size, spatial_scale)), "roi_pooling")
    pooled = lambda kind, r, c, y, x: pool(data[:, c, :, :], rois[r, :])[kind, y, x]
    plane = lambda r, c: (rois[r, 0] * position(data.shape[1]) + position(c)) * position(data.shape[2] * data.shape[3])
    place = lambda r, c, y, x: where(pooled(1, r, c, y, x) >= 0, pooled(1, r, c, y, x) + plane(r, c), -1.0)
    return lambda r, c, y, x: pooled(0, r, c, y, x), lambda r, c, y, x: place(r, c, y, x)


@op("_backward_ROIPooling", counts=("c",))
def backward_roi_pooling(d_out, rois, places):
    found = lambda own, cell: where(places[cell] == own, d_out[cell], 0.0) + 0 * rois[cell[0], Any(0)]
    total = lambda own, c: Sum(lambda r, v, u: found(own, (r, c, v, u)))
    return lambda n, c, y, x: total(position(merge(n, c, y, x)), c), output("r five", lambda *i: 0.0, {"five": 5})


def _check_channels(position_sensitive):
    if position_sensitive:
        raise UnsupportedError("ROIAlign(position_sensitive=True) is not described: its channels belong to bins")


@op("_contrib_ROIAlign")
def roi_align(data, rois, *, position_sensitive=False):
    _check_channels(position_sensitive)
    align = Opaque(name="roi_align")
    return lambda r, c, y, x: align(data[:, c, :, :], rois[r, :])[y, x]


@op("_backward_ROIAlign")
def backward_roi_align(d_out, rois, *, position_sensitive=False):
    _check_channels(position_sensitive)
    gradient = Opaque(name="roi_align_gradient")
    d_data = lambda n, c, y, x: Sum(lambda r: gradient(d_out[r, c, :, :], rois[r, :])[n, y, x])
    return d_data, output("r five", lambda *i: 0.0, {"five": 5})


def _average(planes, region, bins, spatial_scale):
    """Return the mean of each bin, or 0 for an empty bin."""
    plane, corners = planes[int(region[0])], np.floor(region[1:] + 0.5)
    begin = corners[:2] * spatial_scale
    size = np.maximum((corners[2:] + 1) * spatial_scale - begin, 0.1) / bins
    edges = begin + size * np.arange(bins + 1)[:, None]
    low, high = (np.clip(f, 0, plane.shape[::-1]).astype(int) for f in (np.floor(edges[:-1]), np.ceil(edges[1:])))
    means = np.zeros((bins, bins))
    for y, x in np.ndindex(bins, bins):
        block = plane[low[y, 1] : high[y, 1], low[x, 0] : high[x, 0]]
        means[y, x] = block.mean() if block.size else 0.0
    return means


def _check_bins(pooled_size, group_size):
    if group_size not in (0, pooled_size):
        raise UnsupportedError(
            f"PSROIPooling(pooled_size={pooled_size}, group_size={group_size}) is not described: a channel for each bin is, "
            "group_size=0"
        )


@op("_contrib_PSROIPooling", bound={"output_dim": "c"})
def psroi_pooling(data, rois, *, spatial_scale, output_dim, pooled_size, group_size=0):
    _check_bins(pooled_size, group_size)
    pool = Opaque(lambda planes, region: _average(planes, region, pooled_size, spatial_scale), "psroi_pooling")
    extents = {"y": pooled_size, "x": pooled_size}
    return output("r c y x", lambda r, c, y, x: pool(data[:, merge(c, y, x), :, :], rois[r, :])[y, x], extents)


@op("_backward__contrib_PSROIPooling", bound={"output_dim": "c"})
def backward_psroi_pooling(d_out, rois, *, output_dim, pooled_size, group_size=0):
    _check_bins(pooled_size, group_size)
    spread = Opaque(name="psroi_pooling_gradient")
    d_data = lambda n, c, y, x, h, w: Sum(lambda r: spread(d_out[r, c, :, :], rois[r, :])[y, x, n, h, w])
    extents = {"y": pooled_size, "x": pooled_size}
    return output("n (c y x) h w", d_data, extents), output("r five", lambda *i: 0.0, {"five": 5})


@op("_contrib_RROIAlign")
def rotated_roi_align(data, rois):
    align = Opaque(name="rotated_roi_align")
    return lambda r, c, y, x: align(data[:, c, :, :], rois[r, :])[y, x]
