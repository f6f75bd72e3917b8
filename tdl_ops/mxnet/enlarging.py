"""UpSampling and Pad, and their gradients. Cells are copied; bilinear UpSampling is a transposed convolution of each channel."""

from __future__ import annotations

from math import ceil

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import read_window
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, absolute, maximum, minimum, output, position, scatter

CHANNELS = {"num_filter": lambda local: local.extent("c") if local.attributes["sample_type"] == "bilinear" else 0}


def _check_inputs(sample_type, num_args):
    if sample_type == "nearest" and num_args != 1:
        raise UnsupportedError("UpSampling(sample_type=nearest) is described for one input")


def _window(scale):
    """Where the cells of a channel's weight come to lie."""
    return read_window((2 * scale - scale % 2,) * 2, (scale,) * 2, (ceil((scale - 1) / 2),) * 2)


@op("UpSampling", bound=CHANNELS)
def upsampling(data, weight=None, *, scale, sample_type, num_args=1, num_filter=0):
    _check_inputs(sample_type, num_args)
    if weight is None:
        return output("b c (y j) (x k)", lambda b, c, y, j, x, k: data[b, c, y, x], {"j": scale, "k": scale})
    at = _window(scale)
    place = lambda b, c, y, x, v, u: ((b, c, *at((y, x), (v, u))), data[b, c, y, x] * weight[c, 0, v, u])
    return scatter(lambda b, c, y, x, v, u: place(b, c, y, x, v, u))


@op("_backward_UpSampling", bound=CHANNELS)
def backward_upsampling(d_out, data=None, weight=None, *, scale, sample_type, num_args=1, num_filter=0):
    _check_inputs(sample_type, num_args)
    if data is None:
        cell = lambda b, c, y, x: lambda j, k: d_out[b, c, y * scale + j, x * scale + k]
        return lambda b, c, y, x: Sum(cell(b, c, y, x), extents={"j": scale, "k": scale})
    at = _window(scale)
    under = lambda b, c, y, x, v, u: d_out[(b, c, *at((y, x), (v, u)))]
    d_data = lambda b, c, y, x: Sum(lambda v, u: under(b, c, y, x, v, u) * weight[c, 0, v, u])
    d_weight = lambda c, v, u: Sum(lambda b, y, x: under(b, c, y, x, v, u) * data[b, c, y, x])
    return lambda b, c, y, x: d_data(b, c, y, x), output("c one v u", lambda c, one, v, u: d_weight(c, v, u))


def _source(mode, pad_width, shape):
    """The cell of the data that a cell of the padded tensor copies; nowhere inside for a constant."""

    def coordinate(v, d):
        before, after = pad_width[2 * d : 2 * d + 2]
        if mode == "constant" or before == after == 0:
            return v - before
        last, place = position(shape[d]) - 1, position(v) - before
        if mode == "edge":
            return Any(maximum(0.0, minimum(last, place)))
        return Any(last - absolute(last - absolute(place)))

    return lambda i: tuple(coordinate(v, d) for d, v in enumerate(i))


@op("Pad", fill={"data": lambda attributes: attributes["constant_value"]})
def pad(data, *, mode, pad_width, constant_value=0.0):
    source = _source(mode, pad_width, data.shape)
    return lambda *i: data[source(i)]


@op("_backward_Pad", concrete=True)
def backward_pad(d_out, *, output_shapes, mode, pad_width):
    source = _source(mode, pad_width, output_shapes[0])
    return scatter(lambda *i: (source(i), d_out[i]), rank=d_out.ndim)
