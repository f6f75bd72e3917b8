"""Operators that move cells: space to batch and back, diagonals, padding by mirrors, places that follow from shapes."""

from __future__ import annotations

from benchmarks.evaluation.tensorflow import describe
from tofu.errors import UnsupportedError
from tofu.tdl import Any, absolute, equal, merge, output, position, scatter, unread, where

BLOCKS = {"block": (2, 2), "edges": ((0, 1), (1, 0))}


def _names(letter, count):
    return [f"{letter}{n}" for n in range(count)]


def _split_blocks(v, n):
    """The places in a block, the sample, the blocks, and the other dimensions."""
    return v[:n], v[n], v[n + 1 : 2 * n + 1], v[2 * n + 1 :]


def _find_cells(d, y, block, edges):
    return (own * size + place - before for own, place, size, (before, _) in zip(y, d, block, edges, strict=True))


@describe("BatchToSpace", "BatchToSpaceND", inputs=[(12, 3, 4, 5)], outputs=[(3, 5, 7, 5)], attributes=BLOCKS)
def batch_to_space(data, *, block, edges):
    n = len(block)
    names = [*_names("d", n), "b", *_names("y", n), *_names("s", data.ndim - n - 1)]

    def value(*v):
        d, b, y, s = _split_blocks(v, n)
        return (b, *_find_cells(d, y, block, edges), *s), data[(merge(*d, b), *y, *s)]

    return scatter(value, dict(zip(names, block, strict=False)), names=" ".join(names))


@describe("SpaceToBatch", "SpaceToBatchND", inputs=[(3, 5, 7, 5)], outputs=[(12, 3, 4, 5)], attributes=BLOCKS)
def space_to_batch(data, *, block, edges):
    n = len(block)
    names = [*_names("d", n), "b"]

    def value(*v):
        d, b, y, s = _split_blocks(v, n)
        return data[(b, *_find_cells(d, y, block, edges), *s)]

    return output(f"({' '.join(names)}) *s", value, dict(zip(names, block, strict=False)))


@describe("BroadcastArgs", inputs=[(4,), (3,)], outputs=[(4,)], fill={"left": 1.0, "right": 1.0}, concrete=True)
def broadcast_args(left, right, *, output_shapes):
    (size,) = output_shapes[0]
    from_the_end = lambda shape, i: shape[i - (size - shape.shape[0])]
    return lambda i: where(equal(from_the_end(left, i), 1.0), from_the_end(right, i), from_the_end(left, i))


@describe("ConcatOffset", inputs=[(3,), (3,)], outputs=[(3,), (3,)], attributes={"axis": 1})
def concat_offset(*shapes, axis):
    before = lambda n: sum(shape[axis] for shape in shapes[:n])
    others = lambda n, i: sum(unread(shape[i]) for shape in shapes[n:])
    offset = lambda n: lambda i: where(position(i) == axis, before(n), 0.0) + others(n, i)
    return tuple(offset(n) for n in range(len(shapes)))


@describe("Diag", inputs=[(4, 5)], outputs=[(4, 5, 4, 5)])
def diag(diagonal):
    return scatter(lambda *i: ((*i, *i), diagonal[i]), rank=diagonal.ndim)


@describe("DiagPart", inputs=[(4, 5, 4, 5)], outputs=[(4, 5)])
def diag_part(data):
    return lambda *i: data[(*i, *i)]


@describe("MatrixSetDiag", inputs=[(3, 4, 4), (3, 4)], outputs=[(3, 4, 4)])
def matrix_set_diag(data, diagonal):
    is_on = lambda v: position(v[-2]) == position(v[-1])
    return lambda *v: where(is_on(v), diagonal[v[:-1]], data[v])


@describe("MatrixBandPart", inputs=[(3, 4, 5)], outputs=[(3, 4, 5)], attributes={"lower": 1, "upper": 2})
def matrix_band_part(data, *, lower, upper):
    def is_inside(row, column):
        within = lambda distance, most: (distance <= most) | (most < 0)
        return within(position(row) - position(column), lower) & within(position(column) - position(row), upper)

    return lambda *v: where(is_inside(v[-2], v[-1]), data[v], 0.0)


@describe(
    "ExtractImagePatches",
    inputs=[(2, 9, 9, 3)],
    outputs=[(2, 3, 4, 12)],
    attributes={"sizes": (2, 2), "strides": (3, 2), "rates": (2, 1)},
)
def extract_image_patches(images, *, sizes, strides, rates, before=(0, 0)):
    under = lambda n, y, d: y * strides[n] + d * rates[n] - before[n]
    extents = {"v": sizes[0], "u": sizes[1]}
    return output("b y x (v u c)", lambda b, y, x, v, u, c: images[b, under(0, y, v), under(1, x, u), c], extents)


@describe(
    "MirrorPad", inputs=[(3, 5)], outputs=[(3, 8)], attributes={"paddings": ((0, 0), (1, 2)), "mode": "SYMMETRIC"}
)
def mirror_pad(data, *, paddings, mode):
    def coordinate(n, v):
        before, after = paddings[n]
        if before == after == 0:
            return v
        place, size = position(v) - before, position(data.shape[n])
        if mode == "REFLECT":
            return Any(size - 1 - absolute(size - 1 - absolute(place)))
        inside = absolute(place + 0.5)  # mirrored between the cells
        return Any(size - 0.5 - absolute(size - inside))

    return lambda *i: data[tuple(coordinate(n, v) for n, v in enumerate(i))]


@describe("Rank", inputs=[(3, 4)], outputs=[()])
def rank(data):
    return lambda: unread(data[(Any,) * data.ndim]) + data.ndim


@describe(
    "StridedSliceAssign",
    inputs=[(5, 7), (3, 2)],
    outputs=[(5, 7)],
    attributes={"begin": (1, 2), "end": (4, 4), "strides": (1, 1)},
)
def strided_slice_assign(reference, value, *, begin, end, strides):
    if set(strides) != {1}:
        raise UnsupportedError(f"strides={strides} is not described: strides of 1 are")

    def is_inside(i):
        inside = [(position(v) >= first) & (position(v) < last) for v, first, last in zip(i, begin, end, strict=True)]
        return all_of(inside)

    own = lambda i: tuple(v - first for v, first in zip(i, begin, strict=True))
    return lambda *i: where(is_inside(i), value[own(i)], reference[i])


def all_of(conditions):
    """Whether all of some conditions hold."""
    first, *others = conditions
    for other in others:
        first = first & other
    return first
