"""dot_general, products of rows in groups, and convolutions.

The convolutions of a gradient are the same primitive with other dimension numbers and dilations.

Axes of a convolution: batch `b`, output channel `co`, input channel `ci`, groups `g`, output positions `y0 y1 ..`, cells of the kernel
`d0 d1 ..`; where the input is dilated, its positions `x0 x1 ..` in the place of the output's.
"""

from __future__ import annotations

import numpy as np

from tdl_ops.jax import op
from tdl_ops.jax.operands import numbered
from tdl_ops.jax.patterns import contract
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Opaque, Sum, merge, minimum, output, position, scatter, where


@op("dot_general")
def dot_general(lhs, rhs, *, dimension_numbers):
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    left = {d: f"b{n}" for n, d in enumerate(left_batch)} | {d: f"k{n}" for n, d in enumerate(left_sum)}
    right = {d: f"b{n}" for n, d in enumerate(right_batch)} | {d: f"k{n}" for n, d in enumerate(right_sum)}
    left_names = [left.get(d, f"m{d}") for d in range(lhs.ndim)]
    right_names = [right.get(d, f"n{d}") for d in range(rhs.ndim)]
    free = [name for name in (*left_names, *right_names) if name[0] in "mn"]
    return contract([(lhs, left_names), (rhs, right_names)], [*(f"b{n}" for n in range(len(left_batch))), *free])


@op("symmetric_product", concrete=True)
def symmetric_product(a, c, *, alpha, beta):
    n = a.ndim - 2
    product = lambda b, i, j: Sum(lambda k: a[(*b, i, k)] * a[(*b, j, k)])
    return lambda *v: alpha * product(v[:n], *v[n:]) + beta * c[v]


@op("ragged_dot_general", concrete=True)
def ragged_dot_general(lhs, rhs, group_sizes, *, dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions):
    """Rows in groups of given sizes, one after the other: each group times a matrix of its own, or summed by itself."""
    numbers = dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions
    group = Opaque(lambda sizes, row: np.searchsorted(np.cumsum(sizes), row, "right"), "group_of_row")
    find = lambda row: group(group_sizes[:], position(row))[()]
    summed = next((d for d in (1, 2) if numbers == ((((1,), (d,)), ((), ())), (0,), (0,))), None)
    if summed is not None:
        is_there = lambda row: find(row) < group_sizes.shape[0]
        of_group = lambda row: Any(minimum(find(row), group_sizes.shape[0] - 1))
        cell = lambda row, k, n: (of_group(row), k, n) if summed == 1 else (of_group(row), n, k)
        product = lambda row, k, n: lhs[row, k] * rhs[cell(row, k, n)]
        return lambda row, n: Sum(lambda k: where(is_there(row), product(row, k, n), 0.0))
    if numbers == ((((0,), (0,)), ((), ())), (0,), ()):
        each = lambda g, row, m, n: where(find(row) == position(g), lhs[row, m] * rhs[row, n], 0.0)
        groups = {"g": group_sizes.shape[0]}
        return output("g m n", lambda g, m, n: Sum(lambda row: each(g, row, m, n)), groups)
    raise UnsupportedError("a ragged product of these dimensions is not described: that of rows and one group each is")


def _local_padding(local):
    """A copy's padding. Where the output's positions or the window are split, the fetched region has the border; of a dilated input, where
    its positions or the window are, the copy computes all that its cells reach.
    """
    a = local.attributes
    kernel = [local.inputs[1].shape[d] for d in a["rhs_spec"][2:]]
    is_dilated = any(dilation != 1 for dilation in a["lhs_dilation"])

    def pads(d):
        if not any(local.is_split(f"{v}{d}") for v in "yxd"):
            return tuple(a["padding"][d])
        return ((kernel[d] - 1) * a["rhs_dilation"][d],) * 2 if is_dilated else (0, 0)

    return tuple(pads(d) for d in range(len(kernel)))


def _local_groups(name):
    return lambda local: local.extent("g") if local.attributes[name] > 1 else 1


@op(
    "conv_general_dilated",
    concrete=True,
    bound={
        "padding": _local_padding,
        "feature_group_count": _local_groups("feature_group_count"),
        "batch_group_count": _local_groups("batch_group_count"),
    },
    pads=[f"{v}{d}" for v in "yxd" for d in range(3)],
)
def conv_general_dilated(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    lhs_spec,
    rhs_spec,
    out_spec,
    feature_group_count=1,
    batch_group_count=1,
):
    n = len(window_strides)
    place = lambda spec, values: tuple(values[spec.index(d)] for d in range(n + 2))
    low = [before for before, _ in padding]
    count = max(feature_group_count, batch_group_count)
    g, groups = ("g ", {"g": count}) if count > 1 else ("", {})
    in_group = lambda is_grouped, group, v: merge(*group, v) if is_grouped else v
    batch = lambda group, b: in_group(batch_group_count > 1, group, b)
    channel = lambda group, ci: in_group(feature_group_count > 1, group, ci)

    def product(group, b, co, ci, x, d):
        return (
            lhs[place(lhs_spec, (batch(group, b), channel(group, ci), *x))]
            * rhs[place(rhs_spec, (merge(*group, co), ci, *d))]
        )

    if all(dilation == 1 for dilation in lhs_dilation):
        at = lambda y, d: [y[k] * window_strides[k] + d[k] * rhs_dilation[k] - low[k] for k in range(n)]
        order = place(out_spec, ("b", f"({g}co)" if g else "co", *(f"y{k}" for k in range(n))))
        names = [name.strip("()") for text in order for name in text.split()]

        def value(v):
            i = dict(zip(names, v, strict=True))
            group, y = [i[name] for name in g.split()], [i[f"y{k}"] for k in range(n)]
            return Sum(lambda ci, *d: product(group, i["b"], i["co"], ci, at(y, d), d), names=f"ci {numbered('d', n)}")

        return output(" ".join(order), lambda *v: value(v), groups)
    if any(stride != 1 for stride in window_strides):
        raise UnsupportedError("a convolution with strides over a dilated input is not described")

    def reach(*v):
        group, (b, co, ci), x, d = v[: -2 * n - 3], v[-2 * n - 3 : -2 * n], v[-2 * n : -n], v[-n:]
        at = [x[k] * lhs_dilation[k] + low[k] - d[k] * rhs_dilation[k] for k in range(n)]
        return place(out_spec, (b, merge(*group, co), *at)), product(group, b, co, ci, x, d)

    extents = groups | {"co": rhs.shape[rhs_spec[0]] // count} if g else {}
    if batch_group_count > 1:
        extents["b"] = lhs.shape[lhs_spec[0]] // count
    return scatter(lambda *v: reach(*v), extents, names=f"{g}b co ci {numbered('x', n)} {numbered('d', n)}")
