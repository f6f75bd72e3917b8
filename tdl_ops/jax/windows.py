"""Pooling and its gradients: reductions over windows."""

from __future__ import annotations

import math

from tdl_ops.jax import op
from tdl_ops.jax.operands import numbered
from tofu.errors import UnsupportedError
from tofu.tdl import Max, Min, Sum, scatter, where

PADS = [f"i{d}" for d in range(6)]


def _local_padding(local):
    """Where positions are split, the fetched region has the border."""
    pads = enumerate(local.attributes["padding"])
    return tuple((0, 0) if local.is_split(f"i{d}") else tuple(pad) for d, pad in pads)


def _describe_window(reducer):
    def description(operand, *, window_dimensions, window_strides, padding, base_dilation=(), window_dilation=()):
        if any(dilation != 1 for dilation in base_dilation):
            raise UnsupportedError("windows over a dilated input are not described: pad it between cells first")
        n, dilation = len(window_dimensions), window_dilation or (1,) * len(window_dimensions)
        at = lambda i, k: tuple(i[d] * window_strides[d] + k[d] * dilation[d] - padding[d][0] for d in range(n))
        return lambda *i: reducer(lambda *k: operand[at(i, k)], extents={"k": window_dimensions}, ndim=n)

    return description


for _name, _reducer, _fill in (("sum", Sum, 0.0), ("max", Max, -math.inf), ("min", Min, math.inf)):
    op(f"reduce_window_{_name}", concrete=True, bound={"padding": _local_padding}, pads=PADS, fill={"operand": _fill})(
        _describe_window(_reducer)
    )


@op(
    "select_and_scatter_add",
    concrete=True,
    bound={"padding": _local_padding},
    pads=PADS,
    fill={"operand": -math.inf},
)
def select_and_scatter_add(source, operand, *, select_prim, window_dimensions, window_strides, padding):
    if select_prim != "ge":
        raise UnsupportedError(f"select_and_scatter_add by {select_prim} is not described: by ge it is")
    n = len(window_dimensions)
    at = lambda i, k: tuple(i[d] * window_strides[d] + k[d] - padding[d][0] for d in range(n))
    largest = lambda i: Max(lambda *j: operand[at(i, j)], ndim=n, extents={"j": window_dimensions})
    # Of several equally large cells of a window JAX takes the first one; which of them is no matter of the analysis.
    reach = lambda i, k: (at(i, k), where(operand[at(i, k)] == largest(i), source[i], 0.0))
    extents = {f"k{d}": size for d, size in enumerate(window_dimensions)}
    return scatter(lambda *v: reach(v[:n], v[n:]), extents, names=f"{numbered('i', n)} {numbered('k', n)}")
