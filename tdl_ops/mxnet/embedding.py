"""Operators that look up rows of a table, by indices that are data.

The table's rows are not split here, because the indices are known only at run time. `take_parts.py` has operators that
can split them. Indices out of range read the first or last row. Gradients by indices are zero or not written.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Any, maximum, minimum, mod, output, position, scatter, trunc, unwritten, where


def row_of(index, rows, mode="clip"):
    """Return the number of the row that `index` selects in a table with `rows` rows.

    Index 7 in a table of 5 rows selects row 4 ("clip"), row 2 ("wrap"), or none ("exact"). In the mode "length",
    `index` is a length: 3 selects row 2, the last of 3 rows.
    """
    number = trunc(index)
    if mode == "wrap":
        return mod(number, rows)
    if mode in ("exact", "length"):
        return number - (mode == "length")
    return maximum(0.0, minimum(rows - 1, number))


def find_row(index, extent, mode="clip"):
    return Any(row_of(index, position(extent), mode))


@op("Embedding", bound={"output_dim": "e"})
def embedding(data, weight, *, output_dim):
    return output("*i e", lambda e, *i: weight[find_row(data[i], weight.shape[0]), e])


@op("_backward_Embedding", bound={"output_dim": "e"}, concrete=True)
def backward_embedding(d_out, data, *, output_shapes, output_dim):
    rows = output_shapes[1][0]
    d_weight = scatter(lambda e, *i: ((find_row(data[i], rows), e), d_out[(*i, e)]), rank=d_out.ndim)
    return unwritten("*i"), d_weight


@op("take")
def take(a, indices, *, axis=0, mode="clip"):
    axis %= a.ndim
    n = indices.ndim
    names = " ".join([*(f"a{d}" for d in range(axis)), *(f"i{d}" for d in range(n)), "*z"])
    row = lambda i: find_row(indices[i], a.shape[axis], mode)
    return output(names, lambda *v: a[(*v[:axis], row(v[axis : axis + n]), *v[axis + n :])])


@op("_backward_take", concrete=True)
def backward_take(d_out, indices, *, output_shapes, axis=0, mode="clip"):
    shape, n = output_shapes[0], indices.ndim
    axis %= len(shape)
    after = [f"z{d}" for d in range(len(shape) - axis - 1)]
    names = [*(f"a{d}" for d in range(axis)), *(f"i{d}" for d in range(n)), *after]
    row = lambda i: find_row(indices[i], shape[axis], mode)
    d_a = scatter(lambda *v: ((*v[:axis], row(v[axis : axis + n]), *v[axis + n :]), d_out[v]), names=" ".join(names))
    return d_a, unwritten(" ".join(f"i{d}" for d in range(n)))


@op("pick")
def pick(data, index, *, axis=-1, keepdims=False, mode="clip"):
    axis %= data.ndim
    cell = lambda i: (*i[:axis], *i[axis + 1 :]) if keepdims else i
    at = lambda i: index[(*cell(i)[:axis], *((0,) if index.ndim == data.ndim else ()), *cell(i)[axis:])]
    return lambda *i: data[(*cell(i)[:axis], find_row(at(i), data.shape[axis], mode), *cell(i)[axis:])]


@op("_backward_pick")
def backward_pick(d_out, index, *, axis=-1, keepdims=False, mode="clip"):
    def value(i):
        d = axis % len(i)
        at = lambda t: t[(*i[:d], *((0,) if t.ndim == len(i) else ()), *i[d + 1 :])]
        row = row_of(at(index), position(i[d].extent), mode)
        return where(position(i[d]) == row, at(d_out), 0.0)

    return lambda *i: value(i)


@op("one_hot")
def one_hot(indices, *, depth, on_value=1.0, off_value=0.0):
    return output("*i k", lambda k, *i: where(position(k) == trunc(indices[i]), on_value, off_value))
