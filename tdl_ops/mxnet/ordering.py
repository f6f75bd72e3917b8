"""Operators that sort along a dimension. All other dimensions can be split. With axis=None they are replicated.

As in MXNet, equal elements keep their order, except in topk of a few elements.
"""

import numpy as np

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, Sum, merge, position, unread, where


def _line(data, i, axis):
    return data[(slice(None),) * data.ndim if axis is None else (*i[:axis], slice(None), *i[axis + 1 :])]


def _along(axis, data):
    return None if axis is None else axis % data.ndim


def _describe_position(function):
    find = Opaque(function, function.__name__)

    def description(data, *, axis=None, keepdims=False):
        d = _along(axis, data)
        whole = lambda i: i if keepdims or d is None or data.ndim == 1 else (*i[:d], None, *i[d:])
        return lambda *i: find(_line(data, whole(i), d))[()]

    return description


op("argmax")(_describe_position(np.argmax))
op("argmin")(_describe_position(np.argmin))


@op("argmax_channel")
def argmax_channel(data):
    find = Opaque(np.argmax, "argmax")
    return lambda b, *i: find(_line(data, (b, None, *i), 1))[()]


def _arrange(line, is_ascend):
    return np.argsort(line.reshape(-1) if is_ascend else -line.reshape(-1), kind="stable")


def _in_order(data, axis, is_ascend, count=None):
    d = _along(axis, data)
    values = Opaque(lambda line: line.reshape(-1)[_arrange(line, is_ascend)], "sort")
    positions = Opaque(lambda line: _arrange(line, is_ascend), "argsort")
    mask = Opaque(lambda line: _arrange(_arrange(line, is_ascend), True).reshape(line.shape) < count, "mask")
    place = lambda i: i[0] if d is None else i[d]
    return (
        lambda *i: values(_line(data, i, d))[place(i)],
        lambda *i: positions(_line(data, i, d))[place(i)],
        lambda *i: mask(_line(data, i, d))[i if d is None else place(i)],
    )


@op("sort")
def sort(data, *, axis=-1, is_ascend=True):
    return _in_order(data, axis, is_ascend)[:2]


@op("argsort")
def argsort(data, *, axis=-1, is_ascend=True):
    return _in_order(data, axis, is_ascend)[1]


@op("topk")
def topk(data, *, axis=-1, k=1, ret_typ="indices", is_ascend=False):
    values, positions, mask = _in_order(data, axis, is_ascend, k or np.inf)
    return {"value": (values, positions), "both": (values, positions), "indices": positions, "mask": mask}[ret_typ]


@op("_backward_topk", bound={"k": "k"})
def backward_topk(d_out, values, positions, *, axis=-1, k=1):
    def value(i):
        d = None if axis is None else axis % len(i)
        own = position(merge(*i) if d is None else i[d])
        found = lambda cell: where(own == positions[cell], d_out[cell] + unread(values[cell]), 0.0)
        return Sum(lambda k: found((k,) if d is None else (*i[:d], k, *i[d + 1 :])))

    return lambda *i: value(i)
