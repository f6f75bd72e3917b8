"""Reductions over dimensions, and what is computed along one: positions of extremes, running totals, order."""

from __future__ import annotations

import numpy as np

from tdl_ops.jax import op
from tofu.errors import UnsupportedError
from tofu.tdl import Max, Min, Opaque, Prod, Sum, output

REDUCERS = {"reduce_sum": Sum, "reduce_max": Max, "reduce_min": Min, "reduce_prod": Prod}
LOGICAL = {"reduce_and": Min, "reduce_or": Max}


def _reduce(operand, axes, reducer):
    kept = [d for d in range(operand.ndim) if d not in axes]
    reduced = [d for d in range(operand.ndim) if d in axes]

    def value(v):
        at = lambda r: dict(zip(kept, v, strict=True)) | dict(zip(reduced, r, strict=True))
        element = lambda *r: operand[tuple(index for _, index in sorted(at(r).items()))]
        return reducer(element, names=" ".join(f"i{d}" for d in reduced)) if reduced else element()

    return output(" ".join(f"i{d}" for d in kept), lambda *v: value(v))


def _describe(reducer):
    return lambda operand, *, axes: _reduce(operand, axes, reducer)


def _describe_logical(name, reducer):
    def description(operand, *, axes, input_types):
        if input_types != ("bool",):
            raise UnsupportedError(f"{name} of {input_types[0]} is not described: of booleans it is")
        return _reduce(operand, axes, reducer)

    return description


for _name, _reducer in REDUCERS.items():
    op(_name)(_describe(_reducer))
for _name, _reducer in LOGICAL.items():
    op(_name)(_describe_logical(_name, _reducer))


def _line(operand, i, axis):
    """The cells along `axis` that go through the cell `i`."""
    return operand[(*i[:axis], slice(None), *i[axis + 1 :])]


def _describe_position(function):
    def description(operand, *, axes):
        (axis,) = axes
        find = Opaque(function, function.__name__)
        names = " ".join(f"i{d}" for d in range(operand.ndim) if d != axis)
        return output(names, lambda *i: find(_line(operand, (*i[:axis], None, *i[axis:]), axis))[()])

    return description


op("argmax")(_describe_position(np.argmax))
op("argmin")(_describe_position(np.argmin))

RUNNING = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "cumlogsumexp": np.logaddexp.accumulate,
}


def _describe_running(function):
    def description(operand, *, axis, reverse=False):
        line = Opaque((lambda cells: function(cells[::-1])[::-1]) if reverse else function, "running")
        return lambda *i: line(_line(operand, i, axis))[i[axis]]

    return description


for _name, _function in RUNNING.items():
    op(_name)(_describe_running(_function))


@op("sort")
def sort(*operands, dimension, num_keys=1):
    order = lambda lines: np.lexsort(lines[:num_keys][::-1])  # stable, the first key counts most

    def sorted_lines(n):
        line = Opaque(lambda *lines: lines[n][order(lines)], "sort")
        return lambda *i: line(*(_line(operand, i, dimension) for operand in operands))[i[dimension]]

    return tuple(sorted_lines(n) for n in range(len(operands)))


@op("top_k", concrete=True)
def top_k(operand, *, output_shapes, k, axis=-1):
    axis %= operand.ndim
    arrange = lambda cells: np.argsort(-cells, kind="stable")[:k]
    values = Opaque(lambda cells: cells[arrange(cells)], "top_k")
    positions = Opaque(arrange, "top_k")
    names = " ".join("k" if d == axis else f"i{d}" for d in range(operand.ndim))
    return tuple(
        output(names, lambda *i, f=f: f(_line(operand, i, axis))[i[axis]], {"k": k}) for f in (values, positions)
    )
