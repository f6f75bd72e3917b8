"""Cumulative sums. They can be split by all dimensions except their own. With axis=None they are replicated."""

import numpy as np

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Opaque


def _along(function, data, axis, shape):
    if axis is None:
        result = Opaque(lambda cells: function(cells.reshape(-1)).reshape(shape), "cumulative sum")
        return lambda *i: result(data[(slice(None),) * data.ndim])[i]
    d, result = axis % data.ndim, Opaque(function, "cumulative sum")
    return lambda *i: result(data[(*i[:d], slice(None), *i[d + 1 :])])[i[d]]


@op("_np_cumsum", concrete=True)
def cumsum(data, *, axis=None, dtype=None, output_shapes):
    if dtype not in (None, "None", "float32", "float64"):
        raise UnsupportedError(
            f"cumsum to dtype={dtype} is not described: its terms are rounded one by one; use Cast before it"
        )
    return _along(np.cumsum, data, axis, output_shapes[0])


@op("_backward_np_cumsum", concrete=True)
def backward_cumsum(d_out, *, axis=None, output_shapes):
    return _along(lambda cells: np.cumsum(cells[::-1])[::-1], d_out, axis, output_shapes[0])
