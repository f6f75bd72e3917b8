"""Image operators of Gluon's transforms."""

from tdl_ops.mxnet import op
from tofu.tdl import position, unread, where


def _of_channel(c, values):
    return sum(where(position(c) == n, values[n % len(values)], 0.0) for n in range(3))


@op("_image_normalize")
def normalize(data, *, mean=(0.0,), std=(1.0,)):
    return lambda *v: (data[v] - _of_channel(v[-3], mean)) / _of_channel(v[-3], std)


@op("_backward_image_normalize")
def backward_normalize(d_out, data, *, std=(1.0,)):
    return lambda *v: d_out[v] / _of_channel(v[-3], std) + unread(data[v])


@op("_image_to_tensor")
def to_tensor(data):
    """Move the channels to the front, and divide by 255."""
    return lambda *v: data[(*v[:-3], *v[-2:], v[-3])] / 255
