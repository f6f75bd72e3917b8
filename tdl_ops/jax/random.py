"""Describe JAX operations on random keys (`jax.random.key`).

A key is one element. Each number that is drawn from a key depends only on the key and on the position of the number. So
a worker can draw a shard of the numbers, from the complete key and the first position of the shard.

XLA's generators ("rbg", "unsafe_rbg") are an exception: for several keys, they draw all numbers from the first key, so
their results are replicated.
"""

import numpy as np

from tdl_ops.jax import op
from tdl_ops.jax.operands import AXES, NUMBERS, cell, numbered, put_together
from tofu.errors import UnsupportedError
from tofu.tdl import Opaque, elementwise, output, position

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(key0, key1, x0, x1):
    """Compute the hash function Threefry-2x32 with 20 rounds (Salmon and others, 2011)."""
    mask = np.int64(0xFFFFFFFF)
    key0, key1, x0, x1 = (np.asarray(v).astype(np.int64) for v in (key0, key1, x0, x1))
    keys = key0, key1, key0 ^ key1 ^ np.int64(0x1BD11BDA)
    x0, x1 = (x0 + keys[0]) & mask, (x1 + keys[1]) & mask
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            x0 = (x0 + x1) & mask
            x1 = (((x1 << rotation) | (x1 >> (32 - rotation))) & mask) ^ x0
        x0 = (x0 + keys[(block + 1) % 3]) & mask
        x1 = (x1 + keys[(block + 2) % 3] + block + 1) & mask
    return x0, x1


HALVES = [
    elementwise("threefry_first", lambda *v: _threefry(*v)[0]),
    elementwise("threefry_second", lambda *v: _threefry(*v)[1]),
]


@op("threefry2x32")
def threefry2x32(*x, literals=()):
    operands = put_together(x, literals)
    return tuple(lambda *i, half=half: half(*(cell(operand, i) for operand in operands)) for half in HALVES)


def _depends_on_other_keys(count, input_types):
    return count > 0 and input_types[0] != "key<fry>"


def _draw_whole(name, *operands):
    draw = Opaque(name=name)
    whole = [x if isinstance(x, NUMBERS) else x[(slice(None),) * x.ndim] for x in operands]
    return lambda *i: draw(*whole)[i]


def _list_extents(shape):
    return {f"i{d}": extent for d, extent in enumerate(shape)}


def _local_first(local):
    return tuple(local.start(f"i{d}") for d in range(len(local.outputs[0].shape)))


def _local_shape(local):
    return local.outputs[0].shape[len(local.inputs[0].shape) :]


def _describe_draws(name):
    def description(keys, *, output_shapes, shape, input_types, bit_width=0, first=()):
        rank = len(output_shapes[0])
        if _depends_on_other_keys(keys.ndim, input_types):
            return output(numbered("i", rank), _draw_whole(name, keys), _list_extents(output_shapes[0]))
        begin = first or (0,) * rank
        drawn = Opaque(name=name)
        cells = lambda i: [position(v) + b for v, b in zip(i[keys.ndim :], begin[keys.ndim :], strict=True)]
        return output(numbered("i", rank), lambda *i: drawn(keys[i[: keys.ndim]], *cells(i))[()])

    return description


for _name in ("random_bits", "random_split"):
    op(_name, concrete=True, starts=AXES, bound={"shape": _local_shape, "first": _local_first})(_describe_draws(_name))


@op("random_wrap")
def random_wrap(bits):
    wrap = Opaque(name="random_wrap")
    return lambda *i: wrap(bits[(*i, slice(None))])[()]


@op("random_unwrap", concrete=True)
def random_unwrap(keys, *, output_shapes):
    unwrap = Opaque(name="random_unwrap")
    names = numbered("i", len(output_shapes[0]))
    return output(names, lambda *i: unwrap(keys[i[:-1]])[i[-1]], {f"i{keys.ndim}": output_shapes[0][-1]})


@op("random_seed")
def random_seed(*seeds, literals=()):
    (seed,) = put_together(seeds, literals)
    key = Opaque(name="random_seed")
    return lambda *i: key(cell(seed, i))[()]


@op("random_fold_in")
def random_fold_in(*x, input_types, literals=()):
    keys, data = put_together(x, literals)
    if _depends_on_other_keys(max(keys.ndim, getattr(data, "ndim", 0)), input_types):
        return _draw_whole("random_fold_in", keys, data)
    key = Opaque(name="random_fold_in")
    return lambda *i: key(cell(keys, i), cell(data, i))[()]


@op("random_clone")
def random_clone(keys):
    return lambda *i: keys[i]


@op("random_gamma")
def random_gamma(keys, alpha, *, input_types):
    if _depends_on_other_keys(keys.ndim, input_types):
        return _draw_whole("random_gamma", keys, alpha)
    draw = Opaque(name="random_gamma")
    rest = (slice(None),) * (alpha.ndim - keys.ndim)  # a number depends on how many are drawn
    return lambda *i: draw(keys[i[: keys.ndim]], alpha[(*i[: keys.ndim], *rest)])[i[keys.ndim :]]


@op("rng_bit_generator", concrete=True, starts=AXES, bound={"shape": lambda local: local.outputs[1].shape})
def rng_bit_generator(key, *, output_shapes, shape):
    if key.ndim != 1:
        raise UnsupportedError("rng_bit_generator is described for one key only")
    following, bits = Opaque(name="next_key"), Opaque(name="random_bits")
    return (
        output("k", lambda k: following(key[:])[k], {"k": output_shapes[0][0]}),
        output(numbered("i", len(shape)), lambda *i: bits(key[:], *map(position, i))[()], _list_extents(shape)),
    )
