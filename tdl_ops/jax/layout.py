"""Describe JAX operations that move elements."""

import math
from itertools import accumulate

from tdl_ops.jax import indexing, op
from tdl_ops.jax.operands import AXES, NUMBERS, cell, numbered, put_together
from tdl_ops.patterns.layout import cut, join, pick
from tdl_ops.patterns.reshape import reshape_to
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, constant, maximum, minimum, output, position, unread, where

GREATEST = {"int64": 2**63 - 1, "uint64": 2**64 - 1}


@op("transpose")
def transpose(operand, *, permutation):
    return lambda *i: operand[tuple(i[permutation.index(d)] for d in range(operand.ndim))]


@op("reshape", concrete=True, bound={"new_sizes": lambda local: local.outputs[0].shape})
def reshape(operand, *, output_shapes, new_sizes, dimensions=None):
    if dimensions is not None:
        raise UnsupportedError("a reshape that reorders dimensions is not described: transpose first")
    return reshape_to(operand, output_shapes[0])


@op("squeeze", concrete=True)
def squeeze(operand, *, output_shapes):
    return reshape_to(operand, output_shapes[0])


@op("optimization_barrier")
def optimization_barrier(operand):  # the front end makes one for each operand
    return lambda *i: operand[i]


@op("device_put")
def device_put(operand):  # moves one operand to another kind of memory
    return lambda *i: operand[i]


@op("stack", concrete=True)
def stack(*operands, output_shapes, axis, literals=()):
    parts = put_together(operands, literals)

    def value(i):
        own = (*i[:axis], *i[axis + 1 :])
        cells = (where(position(i[axis]) == n, cell(part, own), 0.0) for n, part in enumerate(parts))
        return sum(cells, constant(0.0))

    return output(numbered("i", len(output_shapes[0])), lambda *i: value(i))


@op("unstack", concrete=True)
def unstack(operand, *, output_shapes, axis):
    return pick(operand, range(len(output_shapes)), axis)


@op("tile", bound={"reps": lambda local: tuple(local.extent(f"r{d}") for d in range(len(local.inputs[0].shape)))})
def tile(operand, *, reps):
    names = " ".join(f"(r{d} i{d})" for d in range(operand.ndim))
    return output(names, lambda *v: operand[v[1::2]], {f"r{d}": count for d, count in enumerate(reps)})


@op("rev")
def rev(operand, *, dimensions):
    return lambda *i: operand[tuple(operand.shape[d] - 1 - v if d in dimensions else v for d, v in enumerate(i))]


@op("concatenate", concrete=True)
def concatenate(*operands, dimension):
    *begins, _ = accumulate((part.shape[dimension] for part in operands), initial=0)
    return join(operands, begins, dimension)


@op("split", concrete=True)
def split(operand, *, sizes, axis):
    *begins, _ = accumulate(sizes, initial=0)
    return cut(operand, begins, axis)


def _local_start(local):
    # In a split dimension, the worker fetches a region that begins with the first element of the slice.
    return tuple(0 if local.is_split(f"i{d}") else begin for d, begin in enumerate(local.attributes["start_indices"]))


def _local_limit(local):
    strides = local.attributes["strides"] or (1,) * len(local.outputs[0].shape)
    parts = zip(_local_start(local), local.outputs[0].shape, strides, strict=True)
    return tuple(begin + (extent - 1) * stride + 1 for begin, extent, stride in parts)


@op("slice", pads=AXES, bound={"start_indices": _local_start, "limit_indices": _local_limit})
def slice_(operand, *, start_indices, limit_indices, strides=None):
    steps = strides or (1,) * operand.ndim
    return lambda *i: operand[tuple(v * s + first for v, first, s in zip(i, start_indices, steps, strict=True))]


def _read_padding(attributes):
    # float64 lacks 2**63 - 1 and 2**64 - 1. Infinity replaces them.
    number = dict(attributes["literals"]).get(1, 0.0)
    return math.inf if number == GREATEST.get(attributes["output_types"][0]) else complex(number).real


@op("pad", fill={"operand": _read_padding})
def pad(operand, *value, padding_config, output_types, literals=()):
    if value:
        raise UnsupportedError("padding with a number that is known only at run time is not described: use where")
    (number,) = dict(literals).values()
    if complex(number).imag:
        raise UnsupportedError("padding with a complex number is not described: use where")
    if isinstance(number, int) and float(number) != number != GREATEST.get(output_types[0]):
        raise UnsupportedError(f"padding with {number}, which is no number in float64, is not described: use where")
    if any(inner for _, _, inner in padding_config):
        raise UnsupportedError("padding between elements is described only for numbers")
    return lambda *i: operand[tuple(v - low for v, (low, _, _) in zip(i, padding_config, strict=True))]


def _find_starts(starts, literals, first, whole, sizes):
    begins = [cell(start, ()) for start in put_together(starts, [(n - first, number) for n, number in literals])]
    inside = lambda begin, most: maximum(0.0, minimum(begin, float(most)))
    return [inside(begin, extent - size) for begin, extent, size in zip(begins, whole, sizes, strict=True)]


def _local_sizes(local):
    sizes = zip(local.attributes["slice_sizes"], local.outputs[0].shape, strict=True)
    return tuple(own if local.has(f"i{d}") else size for d, (size, own) in enumerate(sizes))


@op("dynamic_slice", concrete=True, starts=indexing.AXES, bound={"slice_sizes": _local_sizes, **indexing.BOUND})
def dynamic_slice(operand, *starts, slice_sizes, literals=(), first=(), rows=()):
    # If a sliced dimension is split, each worker returns the elements of the slice in its shard, which begins at
    # `first`. All other elements are zeros.
    first, rows = first or (0,) * operand.ndim, rows or operand.shape
    begins = _find_starts(starts, literals, 1, rows, slice_sizes)
    sliced = [d for d, (extent, size) in enumerate(zip(rows, slice_sizes, strict=True)) if extent != size]
    names = " ".join(f"{'o' if d in sliced else 'i'}{d}" for d in range(operand.ndim))
    if not sliced:
        return output(names, lambda *i: operand[i])

    def taken(i, v):
        at = dict(zip(sliced, v, strict=True))
        is_here = [position(at[d]) + first[d] == begins[d] + position(i[d]) for d in sliced]
        value = operand[tuple(at.get(d, i[d]) for d in range(operand.ndim))]
        for condition in is_here:
            value = where(condition, value, 0.0)
        return value

    return output(names, lambda *i: Sum(lambda *v: taken(i, v), names=" ".join(f"v{d}" for d in sliced)))


@op("dynamic_update_slice", concrete=True, starts=indexing.AXES, bound=indexing.BOUND)
def dynamic_update_slice(*x, literals=(), first=(), rows=()):
    tensors = put_together(x, literals)
    if any(isinstance(tensor, NUMBERS) for tensor in tensors[:2]):
        raise UnsupportedError("a dynamic update of a number is not described")
    operand, update = tensors[:2]
    first, rows = first or (0,) * operand.ndim, rows or operand.shape
    begins = _find_starts(x[2:], literals, 2, rows, update.shape)
    partial = [d for d in range(operand.ndim) if rows[d] != update.shape[d]]

    def value(i):
        offset = {d: position(i[d]) + first[d] - begins[d] for d in partial}
        new = update[tuple(Any(offset[d]) if d in offset else v for d, v in enumerate(i))]
        for d in partial:
            new = where((offset[d] >= 0) & (offset[d] < update.shape[d]), new, operand[i])
        return new if partial else new + unread(operand[i])

    return output(" ".join(f"{'v' if d in partial else 'w'}{d}" for d in range(operand.ndim)), lambda *i: value(i))
