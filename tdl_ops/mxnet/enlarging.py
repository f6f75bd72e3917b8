"""UpSampling and Pad, and their gradients. Bilinear UpSampling is a transposed convolution of each channel."""

from itertools import pairwise
from math import ceil

from tdl_ops.mxnet import op
from tdl_ops.mxnet.window import read_window
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Sum, absolute, maximum, merge, minimum, output, position, scatter

CHANNELS = {"num_filter": lambda local: local.extent("c") if local.attributes["sample_type"] == "bilinear" else 0}


def _window(scale):
    return read_window((2 * scale - scale % 2,) * 2, (scale,) * 2, (ceil((scale - 1) / 2),) * 2)


class Planes:
    """Enlarge images of several sizes to one size by repeating elements. Concatenate or add them."""

    # Images with 2 and 6 rows are enlarged to 12. A row of the result is numbered by three index variables (`rows`) with
    # the extents 2, 3 and 2. The first image needs one of them, the second image two (`row_depths`).
    def __init__(self, shapes, whole, is_sum):
        self.extents = dict[str, int]()
        self.is_sum, channels = is_sum, [shape[1] for shape in shapes]
        self.begins = [0 if is_sum else sum(channels[:n]) for n in range(len(shapes))]
        self._check(shapes, whole)
        self.rows, self.row_depths = self._find_factors("y", [shape[2] for shape in shapes], whole[2])
        self.columns, self.column_depths = self._find_factors("x", [shape[3] for shape in shapes], whole[3])

    @staticmethod
    def _check(shapes, whole):
        repeated = [(whole[2] / rows, whole[3] / columns, batch) for batch, _, rows, columns in shapes]
        if any(rows != columns or batch != whole[0] for rows, columns, batch in repeated):
            raise UnsupportedError(
                f"UpSampling(sample_type=nearest) of {', '.join(map(str, shapes))} is described where batches are equal, and rows "
                "are repeated as often as columns"
            )

    def _find_factors(self, name, sizes, whole):
        levels = sorted({*sizes, whole})
        if any(larger % smaller for smaller, larger in pairwise(levels)):
            raise UnsupportedError(
                f"UpSampling(sample_type=nearest) of planes of {', '.join(map(str, sizes))} cells is described where each of these "
                "sizes divides the next larger one"
            )
        names = [name, *(f"{name}{n}" for n in range(1, len(levels)))]
        self.extents |= {inner: b // a for inner, (a, b) in zip(names[1:], pairwise(levels), strict=True)}
        return names, [levels.index(size) + 1 for size in sizes]

    def _declare(self, names):
        return {name: self.extents[name] for name in names if name in self.extents}

    def enlarge(self, planes):
        split = 2 + len(self.rows)
        joined = list(zip(planes, self.begins, self.row_depths, self.column_depths, strict=True))

        def value(b, c, y, x):
            return sum(
                plane[b, c - begin, merge(*y[:rows]), merge(*x[:columns])] for plane, begin, rows, columns in joined
            )

        names = f"b c ({' '.join(self.rows)}) ({' '.join(self.columns)})"
        return output(names, lambda *v: value(*v[:2], v[2:split], v[split:]), self.extents)

    def shrink(self, d_out, n):
        """Return the gradient of image number `n`. Each element is the sum over its copies."""
        rows, columns = self.row_depths[n], self.column_depths[n]
        own, inner = [*self.rows[:rows], *self.columns[:columns]], [*self.rows[rows:], *self.columns[columns:]]

        def copy(b, c, v, r):
            at = dict(zip((*own, *inner), (*v, *r), strict=True))
            row, column = (merge(*(at[name] for name in names)) for names in (self.rows, self.columns))
            return d_out[b, c + self.begins[n], row, column]

        def value(b, c, *v):
            total = lambda *r: copy(b, c, v, r)
            return Sum(total, names=" ".join(inner), extents=self._declare(inner)) if inner else total()

        channel = "c" if self.is_sum else f"c{n}"
        names = f"b {channel} ({' '.join(own[:rows])}) ({' '.join(own[rows:])})"
        return output(names, lambda *v: value(*v), self._declare(own))


@op("UpSampling", bound=CHANNELS, concrete=True)
def upsampling(*inputs, output_shapes, scale, sample_type, num_filter=0, multi_input_mode="concat"):
    if sample_type == "nearest":
        return Planes([data.shape for data in inputs], output_shapes[0], multi_input_mode == "sum").enlarge(inputs)
    (data, weight), at = inputs, _window(scale)
    place = lambda b, c, y, x, v, u: ((b, c, *at((y, x), (v, u))), data[b, c, y, x] * weight[c, 0, v, u])
    return scatter(lambda b, c, y, x, v, u: place(b, c, y, x, v, u))


@op("_backward_UpSampling", bound=CHANNELS, concrete=True)
def backward_upsampling(
    d_out, data=None, weight=None, *, output_shapes, scale, sample_type, num_filter=0, multi_input_mode="concat"
):
    if sample_type == "nearest":
        planes = Planes(output_shapes, d_out.shape, multi_input_mode == "sum" or len(output_shapes) == 1)
        return tuple(planes.shrink(d_out, n) for n in range(len(output_shapes)))
    at = _window(scale)
    under = lambda b, c, y, x, v, u: d_out[(b, c, *at((y, x), (v, u)))]
    d_data = lambda b, c, y, x: Sum(lambda v, u: under(b, c, y, x, v, u) * weight[c, 0, v, u])
    d_weight = lambda c, v, u: Sum(lambda b, y, x: under(b, c, y, x, v, u) * data[b, c, y, x])
    return lambda b, c, y, x: d_data(b, c, y, x), output("c one v u", lambda c, one, v, u: d_weight(c, v, u))


def _source(mode, pad_width, shape):
    # With mode "constant", the index may be outside of the data.
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
