"""Small operators of MXNet's contrib package, and splits at given positions."""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.layout import stack
from tdl_ops.patterns.layout import cut, join, pick
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, floor, merge, position, rint, sign, trunc, unread, unwritten, where


@op("_contrib_round_ste")
def round_ste(data):
    return lambda *i: rint(data[i])


@op("_contrib_sign_ste")
def sign_ste(data):
    return lambda *i: sign(data[i])


@op("_contrib_gradientmultiplier")
def gradient_multiplier(data):
    return lambda *i: data[i]


@op("_contrib_backward_gradientmultiplier")
def backward_gradient_multiplier(d_out, *, scalar=1.0):
    return lambda *i: d_out[i] * scalar


@op("_contrib_arange_like")
def arange_like(data, *, start=0.0, step=1.0, repeat=1, axis=None):
    value = lambda place: start + step * floor(position(place) / repeat)
    if axis is None:
        return lambda *i: value(merge(*i)) + unread(data[i])
    return lambda k: value(k) + unread(data[tuple(k if d == axis % data.ndim else Any for d in range(data.ndim))])


@op("_contrib_index_array")
def index_array(data, *, axes=None):
    def value(*v):
        own = [v[d % data.ndim] for d in (range(data.ndim) if axes is None else axes)]
        return sum(where(position(v[-1]) == n, position(i), 0.0) for n, i in enumerate(own)) + unread(data[v[:-1]])

    return lambda *v: value(*v)


@op("_contrib_index_copy")
def index_copy(old, index, new):
    # If an index is repeated, MXNet's result is undefined.
    is_copied = lambda r: Sum(lambda k: where(index[k] == position(r), 1.0, 0.0))
    copied = lambda r, i: Sum(lambda k: where(index[k] == position(r), new[(k, *i)], 0.0))
    return lambda r, *i: where(is_copied(r) > 0, copied(r, i), old[(r, *i)])


@op("_contrib_backward_index_copy")
def backward_index_copy(d_out, old, index, new):
    is_copied = lambda r: Sum(lambda k: where(index[k] == position(r), 1.0, 0.0))
    return (
        lambda r, *i: where(is_copied(r) > 0, 0.0, d_out[(r, *i)]) + unread(old[(r, *i)]),
        unwritten("k"),
        lambda k, *i: d_out[(Any(trunc(index[k])), *i)] + unread(new[(k, *i)]),
    )


def _begins(indices, sections, extent):
    if sections and extent % sections:
        raise UnsupportedError(f"a split of {extent} in {sections} sections is not described; give indices")
    return [n * extent // sections for n in range(sections)] if sections else list(indices)


@op("_split_v2", concrete=True)
def split(data, *, indices=(), axis=1, squeeze_axis=False, sections=0):
    axis %= data.ndim
    begins = _begins(indices, sections, data.shape[axis])
    return pick(data, begins, axis) if squeeze_axis else cut(data, begins, axis)


@op("_split_v2_backward", concrete=True)
def backward_split(*parts, output_shapes, indices=(), axis=1, squeeze_axis=False, sections=0):
    axis %= len(output_shapes[0])
    begins = _begins(indices, sections, output_shapes[0][axis])
    return stack.function(*parts, axis=axis) if squeeze_axis else join(parts, begins, axis)
