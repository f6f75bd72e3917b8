"""Operators that read images at positions that are data, and their gradients.

Images are not split in space, because the positions are known only at run time. Coordinates (x, y) run from -1 to 1.
Outside of the image, elements are zero.
"""

from tdl_ops.mxnet import op
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, floor, merge, mod, output, position, scatter, unread, unwritten, where


def _choose(index, values):
    return sum(where(position(index) == n, value, 0.0) for n, value in enumerate(values))


class AffineGrid:
    """A grid of points (x, y). Each sample multiplies (x, y, 1) by its own 2 x 3 matrix."""

    def __init__(self, target_shape):
        self.height, self.width = target_shape
        if 1 in target_shape:
            raise UnsupportedError("a grid of one row or column is not described: MXNet divides by its extent less one")

    def factors(self, y, x):
        return 2.0 / (self.width - 1) * x - 1, 2.0 / (self.height - 1) * y - 1, 1.0

    def coordinate(self, loc, b, d, y, x):
        """Return x (d = 0) or y (d = 1) of a position in the transformed grid."""
        return sum(loc[b, 3 * d + e] * f for e, f in enumerate(self.factors(position(y), position(x))))

    def destination(self):
        """Return (x, y, 1) for all positions. Kernels save these numbers for their gradients."""
        place = lambda n: self.factors(floor(position(n) / self.width), mod(position(n), self.width))
        return lambda e, n: _choose(e, place(n))

    def d_loc(self, d_grid):
        term = lambda b, d, e, y, x: d_grid(b, d, y, x) * _choose(e, self.factors(position(y), position(x)))
        extents = {"y": self.height, "x": self.width}
        total = lambda b, d, e: Sum(lambda y, x: term(b, d, e, y, x), extents=extents)
        return output("b (d e)", lambda b, d, e: total(b, d, e), {"d": 2, "e": 3})


@op("GridGenerator")
def grid_generator(data, *, transform_type, target_shape=()):
    if transform_type == "affine":
        grid = AffineGrid(target_shape)
        value = lambda b, y, x: [grid.coordinate(data, b, d, y, x) for d in (0, 1)]
        return lambda b, d, y, x: _choose(d, value(b, y, x)), grid.destination()
    cell = lambda d, y, x: _choose(d, (position(x), position(y)))
    value = lambda b, d, y, x: (data[b, d, y, x] + cell(d, y, x)) / _half(d, data) - 1
    return lambda b, d, y, x: value(b, d, y, x), output("m v u", lambda m, v, u: cell(m, v, u))


@op("_backward_GridGenerator")
def backward_grid_generator(d_out, cells=None, *, transform_type, target_shape=()):
    if transform_type == "affine":
        return AffineGrid(target_shape).d_loc(lambda b, d, y, x: d_out[b, d, y, x] + 0 * cells[Any(0), Any(0)])
    return lambda b, d, y, x: d_out[b, d, y, x] / _half(d, d_out)


def _half(d, tensor):
    """Return half the width (d = 0) or half the height (d = 1) in elements."""
    return _choose(d, ((position(tensor.shape[3]) - 1) / 2, (position(tensor.shape[2]) - 1) / 2))


class Sampler:
    """Read `data` by bilinear interpolation. `grid(b, d, y, x)` is the coordinate x (d = 0) or y (d = 1)."""

    def __init__(self, data, grid):
        self.data, self.grid = data, grid
        self.halves = ((position(data.shape[3]) - 1) / 2, (position(data.shape[2]) - 1) / 2)

    def corner(self, b, y, x, v, u):
        # Returns the index of one of the four elements around a position, and its weights by y and by x. `v` and `u`
        # choose its row and column.
        y, x = ((self.grid(b, d, y, x) + 1) * self.halves[d] for d in (1, 0))
        share = lambda place, far: _choose(far, (1 - place + floor(place), place - floor(place)))
        return (Any(floor(y) + position(v)), Any(floor(x) + position(u))), share(y, v), share(x, u)

    def value(self, b, c, y, x):

        def term(v, u):
            cell, share_y, share_x = self.corner(b, y, x, v, u)
            return self.data[(b, c, *cell)] * share_y * share_x

        return Sum(lambda v, u: term(v, u), extents={"v": 2, "u": 2})

    def d_data(self, d_out):

        def place(b, c, y, x, v, u):
            cell, share_y, share_x = self.corner(b, y, x, v, u)
            return (b, c, *cell), d_out[b, c, y, x] * share_y * share_x

        return scatter(lambda b, c, y, x, v, u: place(b, c, y, x, v, u), extents={"v": 2, "u": 2})

    def d_grid(self, d_out, b, d, y, x):
        """Return the gradient of x (d = 0) or y (d = 1)."""

        def term(c, v, u):
            cell, share_y, share_x = self.corner(b, y, x, v, u)
            slopes = share_y * (2 * position(u) - 1) * self.halves[0], share_x * (2 * position(v) - 1) * self.halves[1]
            return d_out[b, c, y, x] * self.data[(b, c, *cell)] * _choose(d, slopes)

        return Sum(lambda c, v, u: term(c, v, u), extents={"v": 2, "u": 2})


@op("BilinearSampler")
def bilinear_sampler(data, grid):
    sampler = Sampler(data, lambda b, d, y, x: grid[b, d, y, x])
    return lambda b, c, y, x: sampler.value(b, c, y, x), unwritten("b y x two", {"two": 2})


@op("_backward_BilinearSampler")
def backward_bilinear_sampler(d_out, data, scratch, grid):
    sampler = Sampler(data, lambda b, d, y, x: grid[b, d, y, x])
    shape = lambda b, y, x: unread(scratch[b, y, x, Any])
    return sampler.d_data(d_out), lambda b, d, y, x: sampler.d_grid(d_out, b, d, y, x) + shape(b, y, x)


@op("SpatialTransformer")
def spatial_transformer(data, loc, *, target_shape):
    grid = AffineGrid(target_shape)
    coordinate = lambda b, d, y, x: grid.coordinate(loc, b, d, y, x)
    sampler = Sampler(data, coordinate)
    source = lambda b, d, y, x: _choose(d, [coordinate(b, e, y, x) for e in (0, 1)])
    return (
        lambda b, c, y, x: sampler.value(b, c, y, x),
        grid.destination(),
        output("b d (y x)", lambda b, d, y, x: source(b, d, y, x), {"y": grid.height, "x": grid.width}),
    )


@op("_backward_SpatialTransformer", bound={"target_shape": lambda local: (local.extent("y"), local.extent("x"))})
def backward_spatial_transformer(d_out, cells, source, data, *, target_shape):
    height, width = target_shape
    sampler = Sampler(data, lambda b, d, y, x: source[b, d, merge(y, x)])
    term = lambda b, d, e, y, x: sampler.d_grid(d_out, b, d, y, x) * cells[e, merge(y, x)]
    total = lambda b, d, e: Sum(lambda y, x: term(b, d, e, y, x), extents={"y": height, "x": width})
    return sampler.d_data(d_out), output("b (d e)", lambda b, d, e: total(b, d, e), {"d": 2, "e": 3})
