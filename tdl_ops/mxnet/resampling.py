"""Operators that repeat, slice or reverse data, and their gradients."""

from tdl_ops.mxnet import op
from tofu.tdl import Sum, merge, output, scatter


def _as_tuple(bounds):
    """Convert a number to a tuple, because mx.np writes begin=2 for x[2:5]."""
    return bounds if isinstance(bounds, tuple) else (bounds,)


def _slices(shape, begin, end, step):
    begin, end, step = (_as_tuple(bounds) for bounds in (begin, end, step))

    def read(d, values):
        return values[d] if d < len(values) else None

    ranges = [slice(read(d, begin), read(d, end), read(d, step) or 1).indices(extent) for d, extent in enumerate(shape)]
    return [(first, stride) for first, _, stride in ranges]


def _local_bound(name):
    # In split dimensions, the worker receives only the slice.
    return lambda local: tuple(
        None if local.is_split(f"i{d}") else n for d, n in enumerate(_as_tuple(local.attributes[name]))
    )


SLICE = {
    "bound": {name: _local_bound(name) for name in ("begin", "end")},
    "pads": tuple(f"i{d}" for d in range(8)),
    "concrete": True,
}


@op("slice", **SLICE)
def cut(data, *, begin, end, step=()):
    slices = _slices(data.shape, begin, end, step)
    return lambda *i: data[tuple(v * s + first for v, (first, s) in zip(i, slices, strict=True))]


@op("_backward_slice", **SLICE)
def backward_cut(d_out, *, output_shapes, begin, end, step=()):
    slices = _slices(output_shapes[0], begin, end, step)
    # The slice may be a single row, so dimensions without steps are split as the output.
    narrow = [stride == 1 and d_out.shape[d] != output_shapes[0][d] for d, (_, stride) in enumerate(slices)]
    extents = {f"i{d}": extent for d, extent in enumerate(output_shapes[0]) if narrow[d]}
    cell = lambda i: tuple(v if n else v * s + first for v, n, (first, s) in zip(i, narrow, slices, strict=True))
    source = lambda i: tuple(v - first if n else v for v, n, (first, _) in zip(i, narrow, slices, strict=True))
    return scatter(lambda *i: (cell(i), d_out[source(i)]), extents, rank=d_out.ndim)


def _reversed_dimensions(axis, rank):
    return {d % rank for d in (range(rank) if axis is None else _as_tuple(axis))}


@op("reverse")
def reverse(data, *, axis):
    axes = _reversed_dimensions(axis, data.ndim)
    return lambda *i: data[tuple(data.shape[d] - 1 - v if d in axes else v for d, v in enumerate(i))]


@op("_backward_reverse")
def backward_reverse(d_out, *, axis):
    axes = _reversed_dimensions(axis, d_out.ndim)
    return lambda *i: d_out[tuple(d_out.shape[d] - 1 - v if d in axes else v for d, v in enumerate(i))]


@op("repeat")
def repeat(data, *, repeats, axis=None):
    listed = [f"i{d}" for d in range(data.ndim)]
    if axis is None:
        return output(f"({' '.join(listed)} r)", lambda *v: data[v[:-1]], {"r": repeats})
    axis %= data.ndim
    listed[axis] = f"(i{axis} r)"
    return output(" ".join(listed), lambda *v: data[(*v[: axis + 1], *v[axis + 2 :])], {"r": repeats})


@op("_backward_repeat")
def backward_repeat(d_out, *, repeats, axis=None):
    def at(i, r):
        if axis is None:
            return d_out[merge(*i, r)]
        return d_out[tuple(v * repeats + r if d == axis % len(i) else v for d, v in enumerate(i))]

    return lambda *i: Sum(lambda r: at(i, r), extents={"r": repeats})


def _count(reps, ndim):
    """Return the number of repeats of each dimension: (1, 1, 2, 3) for reps=(2, 3) and 4 dimensions."""
    count = reps if isinstance(reps, tuple) else (reps,)
    return (1,) * (ndim - len(count)) + count


def _repetitions(local):
    ndim = len(local.inputs[0].shape)
    return tuple(local.extent(f"r{d}") for d in range(len(_count(local.attributes["reps"], ndim))))


@op("tile", bound={"reps": _repetitions})
def tile(data, *, reps):
    count = _count(reps, data.ndim)
    new = len(count) - data.ndim
    names = " ".join(f"r{d}" if d < new else f"(r{d} i{d})" for d in range(len(count)))
    return output(names, lambda *v: data[v[new + 1 :: 2]], {f"r{d}": n for d, n in enumerate(count)})


@op("_backward_tile", bound={"reps": _repetitions})
def backward_tile(d_out, *, reps):
    count = _count(reps, d_out.ndim)

    def value(i):
        new = d_out.ndim - len(i)
        cell = lambda r: (*r[:new], *(n * v.extent + v for n, v in zip(r[new:], i, strict=True)))
        return Sum(lambda *r: d_out[cell(r)], ndim=d_out.ndim, extents={"r": count})

    return lambda *i: value(i)
