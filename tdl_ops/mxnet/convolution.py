"""Convolution over 1 to 3 spatial dimensions and its gradient.

Axes: batch `b`, output channel `co`, input channel `ci`, groups `g`, output positions `y0, y1, ..`, kernel positions
`d0, d1, ..`. A convolution with several groups is split by groups, not by channels.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import SPACE, check_layout, local_pad, numbered, read_window
from tofu.tdl import Sum, merge, output, scatter, unread


def local_groups(local):
    return local.extent("g") if local.attributes["num_group"] > 1 else 1


BOUND = {
    "num_group": local_groups,
    "num_filter": lambda local: local_groups(local) * local.extent("co"),
    "pad": local_pad,
}


@op("Convolution", "Convolution_v1", bound=BOUND, pads=SPACE)
def convolution(
    data, weight, bias=None, *, kernel=(), num_filter, stride=(), pad=(), dilate=(), num_group=1, layout=None
):
    check_layout(layout)
    at, n = read_window(kernel, stride, pad, dilate), len(kernel)
    g, extents = ("g ", {"g": num_group}) if num_group > 1 else ("", {})

    def value(b, *v):
        y, co, group = v[-n:], v[-n - 1], v[: -n - 1]
        total = Sum(
            lambda ci, *d: data[(b, merge(*group, ci), *at(y, d))] * weight[(merge(*group, co), ci, *d)],
            ndim=1 + n,
            extents={"d": kernel},
        )
        return total if bias is None else total + bias[merge(*group, co)]

    return output(f"b ({g}co) {numbered('y', n)}", lambda *v: value(*v), extents)


@op("_backward_Convolution", "_backward_Convolution_v1", bound=BOUND, pads=SPACE)
def backward_convolution(
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
    num_group=1,
    no_bias=False,
    layout=None,
):
    check_layout(layout)
    at, n = read_window(kernel, stride, pad, dilate), len(kernel)
    g, extents = ("g ", {"g": num_group}) if num_group > 1 else ("", {})
    window = {f"d{i}": k for i, k in enumerate(kernel)}
    y, d = numbered("y", n), numbered("d", n)

    def d_data(b, *v):
        group, (co, ci), y, d = v[: -2 * n - 2], v[-2 * n - 2 : -2 * n], v[-2 * n : -n], v[-n:]
        value = d_out[(b, merge(*group, co), *y)] * weight[(merge(*group, co), ci, *d)]
        return (b, merge(*group, ci), *at(y, d)), value

    def d_weight(*v):
        group, (co, ci), d = v[: -n - 2], v[-n - 2 : -n], v[-n:]
        return Sum(
            lambda b, *y: d_out[(b, merge(*group, co), *y)] * data[(b, merge(*group, ci), *at(y, d))], ndim=1 + n
        )

    def d_bias(*v):
        total = Sum(lambda b, *y: d_out[(b, merge(*v), *y)], ndim=1 + n)
        return total if bias is None else total + unread(bias[merge(*v)])

    return (
        scatter(lambda *v: d_data(*v), extents | window, names=f"b {g}co ci {y} {d}"),
        output(f"({g}co) ci {d}", lambda *v: d_weight(*v), extents | window),
        output(f"({g}co)", lambda *v: d_bias(*v), extents),
    )[: 2 if no_bias else 3]
