"""Deconvolution (the gradient of a convolution by its data), and its own gradient.

Axes are named as in `convolution.py`, but `y0, y1, ..` are input positions. If workers split these positions, their
outputs overlap at the borders, and the overlaps are added. With a bias this would add the bias twice, so positions are
not split.
"""

from math import prod

from tdl_ops.mxnet import op
from tdl_ops.mxnet.convolution import local_groups
from tdl_ops.mxnet.window import SPACE, check_layout, numbered, read_window
from tofu.tdl import Sum, merge, output, position, scatter, unread, where


def _borders(attributes, space):
    # MXNet computes `pad` and `adj` from `target_shape` if it is set.
    n = len(attributes["kernel"])
    if not any(attributes["target_shape"] or ()):
        return attributes["pad"] or (0,) * n, attributes["adj"] or (0,) * n
    at = read_window(attributes["kernel"], attributes["stride"], (), attributes["dilate"])
    sizes = zip(space, at.kernel, at.stride, at.dilate, attributes["target_shape"], strict=True)
    cut = [stride * (size - 1) + (kernel - 1) * dilate + 1 - target for size, kernel, stride, dilate, target in sizes]
    return tuple((total + 1) // 2 for total in cut), tuple(total % 2 for total in cut)


def _local_border(which):
    # In a split dimension the border is 0, because shards' borders overlap and are added.
    def border(local):
        spaces = numbered("y", len(local.attributes["kernel"])).split()
        borders = _borders(local.attributes, [local.whole(y) for y in spaces])[which]
        return tuple(0 if local.is_split(y) else b for y, b in zip(spaces, borders, strict=True))

    return border


BOUND = {
    "num_group": local_groups,
    "num_filter": lambda local: local_groups(local) * local.extent("co"),
    "pad": _local_border(0),
    "adj": _local_border(1),
    "target_shape": lambda local: (),
}


def _read_window(data, kernel, stride, pad, dilate, adj, target_shape):
    attributes = {
        "kernel": kernel,
        "stride": stride,
        "pad": pad,
        "dilate": dilate,
        "adj": adj,
        "target_shape": target_shape,
    }
    return read_window(kernel, stride, _borders(attributes, data.shape[2:])[0], dilate)


@op("Deconvolution", bound=BOUND, pads=SPACE, concrete=True)
def deconvolution(
    data,
    weight,
    bias=None,
    *,
    kernel=(),
    num_filter,
    stride=(),
    pad=(),
    dilate=(),
    adj=(),
    target_shape=(),
    num_group=1,
    layout=None,
):
    check_layout(layout)
    at, n = _read_window(data, kernel, stride, pad, dilate, adj, target_shape), len(kernel)
    g, extents = ("g", {"g": num_group}) if num_group > 1 else ("", {})
    window = {f"d{i}": k for i, k in enumerate(kernel)}
    if num_group > 1:
        window["ci"] = data.shape[1] // num_group

    term = lambda b, group, ci, co, y, d: data[(b, merge(*group, ci), *y)] * weight[(merge(*group, ci), co, *d)]

    def contribution(b, *v):
        group, (ci, co), y, d = v[: -2 * n - 2], v[-2 * n - 2 : -2 * n], v[-2 * n : -n], v[-n:]
        return (b, merge(*group, co), *at(y, d)), term(b, group, ci, co, y, d)

    def cell(b, *v):
        group, co, x = v[: -n - 1], v[-n - 1], v[-n:]
        meets = lambda y, d: prod(position(p) == position(q) for p, q in zip(at(y, d), x, strict=True))
        total = Sum(
            lambda ci, *v: where(meets(v[:n], v[n:]), term(b, group, ci, co, v[:n], v[n:]), 0.0),
            names=f"ci {y} {d}",
            extents=window,
        )
        return total + bias[merge(*group, co)]

    y, d = numbered("y", n), numbered("d", n)
    if bias is not None:
        return output(f"b ({g} co) {numbered('x', n)}", lambda *v: cell(*v), extents)
    return scatter(lambda *v: contribution(*v), extents | window, names=f"b {g} ci co {y} {d}")


@op("_backward_Deconvolution", bound=BOUND, pads=SPACE, concrete=True)
def backward_deconvolution(
    d_out,
    data,
    weight,
    bias=None,
    *,
    kernel=(),
    num_filter,
    stride=(),
    pad=(),
    dilate=(),
    adj=(),
    target_shape=(),
    num_group=1,
    no_bias=True,
    layout=None,
):
    check_layout(layout)
    at, n = _read_window(data, kernel, stride, pad, dilate, adj, target_shape), len(kernel)
    g, extents = ("g ", {"g": num_group}) if num_group > 1 else ("", {})
    window = {f"d{i}": k for i, k in enumerate(kernel)}
    y, d = numbered("y", n), numbered("d", n)

    def d_data(b, *v):
        group, ci, y = v[: -n - 1], v[-n - 1], v[-n:]
        cell = lambda co, d: (b, merge(*group, co), *at(y, d))
        weight_at = lambda co, d: weight[(merge(*group, ci), co, *d)]
        return Sum(lambda co, *d: d_out[cell(co, d)] * weight_at(co, d), ndim=1 + n, extents={"d": kernel})

    def d_weight(*v):
        group, (ci, co), d = v[: -n - 2], v[-n - 2 : -n], v[-n:]
        cell = lambda b, y: (b, merge(*group, co), *at(y, d))
        return Sum(lambda b, *y: data[(b, merge(*group, ci), *y)] * d_out[cell(b, y)], ndim=1 + n)

    def d_bias(*v):
        total = Sum(lambda b, *x: d_out[(b, merge(*v), *x)], ndim=1 + n)
        return total if bias is None else total + unread(bias[merge(*v)])

    return (
        output(f"b ({g}ci) {y}", lambda *v: d_data(*v), extents),
        output(f"({g}ci) co {d}", lambda *v: d_weight(*v), extents | window),
        output(f"({g}co)", lambda *v: d_bias(*v), extents),
    )[: 2 if no_bias else 3]
