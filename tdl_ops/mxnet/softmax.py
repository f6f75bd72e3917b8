"""softmax, log_softmax, softmin, SoftmaxActivation, their gradients, and the scaling of attention."""

from tdl_ops.mxnet import op
from tofu.tdl import Sum, exp, log, output, position, sqrt, unread, unwritten, where


def _along(tensor, i, axis):
    axis %= len(i)
    return lambda k: tensor[(*i[:axis], k, *i[axis + 1 :])]


def _total(value, *tensors_at):
    return Sum(lambda k: value(*(at(k) for at in tensors_at)))


def _normalize(data, axis, temperature):
    return lambda *i: exp(data[i] / temperature) / _total(lambda x: exp(x / temperature), _along(data, i, axis))


def _normalize_gradient(d_out, kept, axis, temperature):
    *unused, out = kept  # if the types differ, the data comes before the output
    inner = lambda i: _total(lambda d, y: d * y, _along(d_out, i, axis), _along(out, i, axis))
    return lambda *i: out[i] * (d_out[i] - inner(i)) / temperature + _unread(unused, i)


def _unread(tensors, i):
    return sum((unread(tensor[i]) for tensor in tensors), 0.0)


def _inside(length, i, axis):
    axis %= len(i)
    lines = (*i[:axis], *i[axis + 1 :]) or (0,)
    return lambda k: position(k) < length[lines]


@op("softmax")
def softmax(data, length=None, *, axis=-1, temperature=1.0):
    t = temperature or 1.0
    if length is None:
        return _normalize(data, axis, t)

    def value(i):
        is_inside, at = _inside(length, i, axis), _along(data, i, axis)
        total = Sum(lambda k: where(is_inside(k), exp(at(k) / t), 0.0))
        return where(is_inside(i[axis]), exp(data[i] / t) / total, 0.0)

    return lambda *i: value(i)


@op("softmin")
def softmin(data, *, axis=-1, temperature=1.0):
    return _normalize(data, axis, -(temperature or 1.0))


@op("log_softmax")
def log_softmax(data, *, axis=-1, temperature=1.0):
    t = temperature or 1.0
    return lambda *i: data[i] / t - log(_total(lambda x: exp(x / t), _along(data, i, axis)))


@op("_backward_softmax")
def backward_softmax(d_out, *kept, axis=-1, temperature=1.0, use_length=False):
    if use_length:
        return _backward_with_lengths(d_out, *kept, axis, temperature or 1.0)
    return _normalize_gradient(d_out, kept, axis, temperature or 1.0)


def _backward_with_lengths(d_out, data, length, out, axis, temperature):
    def value(i):
        is_inside, d, y = _inside(length, i, axis), _along(d_out, i, axis), _along(out, i, axis)
        inner = Sum(lambda k: where(is_inside(k), d(k) * y(k), 0.0))
        return where(is_inside(i[axis]), out[i] * (d_out[i] - inner) / temperature, 0.0) + unread(data[i])

    lines = [f"i{d}" for d in range(data.ndim) if d != axis % data.ndim] or ["one"]
    return output("*i", lambda *i: value(i)), unwritten(" ".join(lines))


@op("_backward_softmin")
def backward_softmin(d_out, *kept, axis=-1, temperature=1.0):
    return _normalize_gradient(d_out, kept, axis, -(temperature or 1.0))


@op("_backward_log_softmax")
def backward_log_softmax(d_out, *kept, axis=-1, temperature=1.0):
    *unused, out = kept
    total = lambda i: _total(lambda d: d, _along(d_out, i, axis))
    return lambda *i: (d_out[i] - exp(out[i]) * total(i)) / (temperature or 1.0) + _unread(unused, i)


@op("SoftmaxActivation")
def softmax_activation(data, *, mode="instance"):
    return _normalize(data, 1 if mode == "channel" else -1, 1.0)


@op("_backward_SoftmaxActivation")
def backward_softmax_activation(d_out, out):
    # MXNet's backward kernel always runs over dimension 1, its forward kernel under "instance" over the last one.
    return _normalize_gradient(d_out, [out], 1, 1.0)


@op("_contrib_div_sqrt_dim")
def div_sqrt_dim(data):
    return lambda *i: data[i] / sqrt(data.shape[-1])
