"""Division by the window's size, after a sum. Both replace average pooling (`tofu/mxnet/lowerings/spatial.py`)."""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import SPACE, read_layout
from tofu.errors import UnsupportedError
from tofu.tdl import maximum, minimum, output, position


def _local_first(local):
    place = read_layout(local.attributes.get("layout"))
    return local.start(f"y{local.attributes['axis'] - place.first}")


@op("_tofu_divide_by_window", bound={"first": _local_first}, starts=SPACE)
def divide_by_window(data, *, axis, kernel, stride, pad, begin, end, first=0, layout=None):
    place = read_layout(layout)
    dimension = axis - place.first
    if not 0 <= dimension < data.ndim - 2:
        raise UnsupportedError(f"axis={axis} is no dimension of space")

    def divide(cell):
        y = place.take_apart(cell)[2][dimension]
        start = (position(y) + first) * stride - pad
        return data[cell] / maximum(minimum(start + kernel, end) - maximum(start, begin), 1.0)

    return output(place.names("y", data.ndim - 2), lambda *cell: divide(cell))
