"""Describe pooling and its gradients, which reduce over windows."""

import math

import numpy as np

from tdl_ops.jax import op
from tdl_ops.jax.operands import numbered
from tofu.errors import UnsupportedError
from tofu.tdl import Max, Min, Opaque, Sum, scatter, where

PADS = [f"i{d}" for d in range(6)]


def _local_padding(local):
    # In a split dimension, the worker fetches a region that includes the border.
    pads = enumerate(local.attributes["padding"])
    return tuple((0, 0) if local.is_split(f"i{d}") else tuple(pad) for d, pad in pads)


def _find_cells(window_strides, padding, base_dilation=(), window_dilation=()):
    if any(dilation != 1 for dilation in base_dilation):
        raise UnsupportedError("windows over a dilated input are not described: pad the input first")
    steps = list(zip(window_strides, window_dilation or (1,) * len(window_strides), padding, strict=True))
    return lambda i, k: tuple(
        v * stride + w * dilation - low for v, w, (stride, dilation, (low, _)) in zip(i, k, steps, strict=True)
    )


def _describe_window(reducer):
    def description(operand, *, window_dimensions, window_strides, padding, base_dilation=(), window_dilation=()):
        at, n = _find_cells(window_strides, padding, base_dilation, window_dilation), len(window_dimensions)
        return lambda *i: reducer(lambda *k: operand[at(i, k)], extents={"k": window_dimensions}, ndim=n)

    return description


for _name, _reducer, _fill in (("sum", Sum, 0.0), ("max", Max, -math.inf), ("min", Min, math.inf)):
    op(f"reduce_window_{_name}", concrete=True, bound={"padding": _local_padding}, pads=PADS, fill={"operand": _fill})(
        _describe_window(_reducer)
    )


# XLA leaves out the elements of a window that are outside the operand, and starts with the initial value. No element that
# a fetch could put there is known to be neutral for the user's reducer, so padded dimensions are not split.
@op("reduce_window", concrete=True, bound={"padding": _local_padding})
def reduce_window(*x, window_dimensions, window_strides, padding, base_dilation=(), window_dilation=(), literals=()):
    if len(x) > 1 or [n for n, _ in literals] != [1]:
        raise UnsupportedError("windows of several tensors, or with a computed initial value, are not described")
    (operand,) = x  # the primitive's reducer is no attribute
    join = Opaque(name="reduce_window")
    at = _find_cells(window_strides, padding, base_dilation, window_dilation)
    return lambda *i: join(*(operand[at(i, k)] for k in np.ndindex(*window_dimensions)))[()]


EXTREMES = {"ge": (Max, -math.inf), "le": (Min, math.inf)}
"""For each comparison that selects an element, the reducer that finds the element, and its neutral number."""


def _find_extreme(select_prim):
    if select_prim not in EXTREMES:
        raise UnsupportedError(f"a selection by {select_prim} is not described, only by {' and '.join(EXTREMES)}")
    return EXTREMES[select_prim]


def _read_loser(attributes):
    return _find_extreme(attributes["select_prim"])[1]


def _select(operand, at, select_prim, window_dimensions):
    reducer, _ = _find_extreme(select_prim)
    n = len(window_dimensions)
    extreme = lambda i: reducer(lambda *j: operand[at(i, j)], ndim=n, extents={"j": window_dimensions})
    # If several elements are extreme, JAX selects the earliest one. This makes no difference to the analysis.
    return lambda i, k, number: where(operand[at(i, k)] == extreme(i), number, 0.0)


@op(
    "select_and_scatter_add", concrete=True, bound={"padding": _local_padding}, pads=PADS, fill={"operand": _read_loser}
)
def select_and_scatter_add(source, operand, *, select_prim, window_dimensions, window_strides, padding):
    at, n = _find_cells(window_strides, padding), len(window_dimensions)
    selected = _select(operand, at, select_prim, window_dimensions)
    reach = lambda i, k: (at(i, k), selected(i, k, source[i]))
    extents = {f"k{d}": size for d, size in enumerate(window_dimensions)}
    return scatter(lambda *v: reach(v[:n], v[n:]), extents, names=f"{numbered('i', n)} {numbered('k', n)}")


@op("select_and_gather_add", concrete=True, bound={"padding": _local_padding}, pads=PADS, fill={"operand": _read_loser})
def select_and_gather_add(
    tangents, operand, *, select_prim, window_dimensions, window_strides, padding, base_dilation=(), window_dilation=()
):
    at, n = _find_cells(window_strides, padding, base_dilation, window_dilation), len(window_dimensions)
    selected = _select(operand, at, select_prim, window_dimensions)
    return lambda *i: Sum(lambda *k: selected(i, k, tangents[at(i, k)]), ndim=n, extents={"k": window_dimensions})
