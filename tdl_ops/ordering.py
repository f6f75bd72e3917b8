"""Operators that put one dimension in order: opaque along it, split by any other."""

from __future__ import annotations

import numpy as np

from tofu.errors import DescriptionError
from tofu.tdl import Opaque, op


def _line(data, i, axis):
    """The slice of `data` along `axis` through the cell i of the other dimensions."""
    return data[(*i[:axis], slice(None), *i[axis:])]


def _check_axis(axis):
    if axis is None:
        raise DescriptionError("an operator over the flattened tensor (axis=None) cannot be split and is not described")


def _describe_position(function):
    find = Opaque(function, function.__name__)

    def description(data, *, axis=None, keepdims=False):
        _check_axis(axis)
        d = axis % data.ndim
        if keepdims:
            return lambda *i: find(_line(data, (*i[:d], *i[d + 1 :]), d))[()]
        return lambda *i: find(_line(data, i, d))[()]

    return description


op("argmax")(_describe_position(np.argmax))
op("argmin")(_describe_position(np.argmin))


sorted_line, sorting_order = Opaque(np.sort, "sort"), Opaque(np.argsort, "argsort")


def _order(function, data, axis, is_ascend):
    _check_axis(axis)
    d = axis % data.ndim
    place = lambda k: k if is_ascend else data.shape[d] - 1 - k
    return lambda *i: function(_line(data, (*i[:d], *i[d + 1 :]), d))[place(i[d])]


@op("sort")
def sort(data, *, axis=-1, is_ascend=True):
    return _order(sorted_line, data, axis, is_ascend), _order(sorting_order, data, axis, is_ascend)


@op("argsort")
def argsort(data, *, axis=-1, is_ascend=True):
    return _order(sorting_order, data, axis, is_ascend)
