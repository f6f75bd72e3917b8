"""The part that average pooling runs as, beside a sum, where it is split in space: see `tofu/mxnet/lowerings/pooling.py`."""

from __future__ import annotations

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import SPACE
from tofu.errors import UnsupportedError
from tofu.tdl import maximum, minimum, position


def _local_first(local):
    return local.start(f"y{local.attributes['axis'] - 2}")


@op("_tofu_divide_by_window", bound={"first": _local_first}, starts=SPACE)
def divide_by_window(data, *, axis, kernel, stride, pad, begin, end, first=0):
    if axis < 2:
        raise UnsupportedError(f"axis={axis} is no dimension of space")

    def count(y):
        start = (position(y) + first) * stride - pad
        return maximum(minimum(start + kernel, end) - maximum(start, begin), 1.0)

    return lambda b, c, *y: data[(b, c, *y)] / count(y[axis - 2])
