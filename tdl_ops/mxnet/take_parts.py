"""Operators that replace Embedding, take, pick, gather_nd, SequenceLast and their gradients if the indexed dimension is split.

A worker looks up the rows `v` of its shard, whose first row is row `first` of the table. Other rows become zeros.
`rows` is the number of rows of the whole table. `names` are the index variables of the replaced operator. In pick,
several lines of the data may share an index.
"""

from tdl_ops.mxnet import op
from tdl_ops.mxnet.embedding import row_of
from tofu.tdl import Sum, output, position, where


def _local_first(local):
    return local.start("v")


def _is_found(indices, rows, mode, first):
    return lambda v, i: position(v) + first == row_of(indices[i], rows, mode)


@op("_tofu_take", bound={"first": _local_first}, starts=("v",))
def take(table, indices, *, names, rows, axis=0, mode="clip", first=0):
    end = axis + indices.ndim
    is_found = _is_found(indices, rows, mode, first)
    cell = lambda i: Sum(lambda v: where(is_found(v, i[axis:end]), table[(*i[:axis], v, *i[end:])], 0.0))
    return output(names, lambda *i: cell(i))


@op("_tofu_take_backward", bound={"first": _local_first, "extent": "v"}, starts=("v",))
def take_backward(d_out, indices, *, names, rows, extent, axis=0, mode="clip", first=0):
    variables, end = names.split(), axis + indices.ndim
    inside = " ".join(variables[axis:end])
    is_found = _is_found(indices, rows, mode, first)

    def total(c):
        each = lambda *i: where(is_found(c[axis], i), d_out[(*c[:axis], *i, *c[axis + 1 :])], 0.0)
        return Sum(each, names=inside)

    return output(" ".join([*variables[:axis], "v", *variables[end:]]), lambda *c: total(c))


def _index_of(index, i, axis, rank):
    # The indices may have extent 1 along `axis`.
    return (*i[:axis], 0, *i[axis:]) if index.ndim == rank else i[: index.ndim]


@op("_tofu_pick", bound={"first": _local_first}, starts=("v",))
def pick(data, index, *, axis, rows, mode="clip", keepdims=False, names="*i", first=0):
    is_found = _is_found(index, rows, mode, first)
    line = lambda i: (*i[:axis], *i[axis + 1 :]) if keepdims else i
    at = lambda i: _index_of(index, i, axis, data.ndim)
    cell = lambda i: Sum(lambda v: where(is_found(v, at(i)), data[(*i[:axis], v, *i[axis:])], 0.0))
    return output(names, lambda *i: cell(line(i)))


@op("_tofu_pick_backward", bound={"first": _local_first, "extent": "v"}, starts=("v",))
def pick_backward(d_out, index, *, axis, rows, extent, mode="clip", keepdims=False, names="", first=0):
    rank = d_out.ndim + (not keepdims)
    is_found = _is_found(index, rows, mode, first)
    line = lambda i: (*i[:axis], *i[axis + 1 :])
    at = lambda tensor, i: _index_of(tensor, line(i), axis, rank)
    others = names.split() or [f"i{d}" for d in range(rank) if d != axis]
    value = lambda i: where(is_found(i[axis], at(index, i)), d_out[at(d_out, i)], 0.0)
    return output(" ".join([*others[:axis], "v", *others[axis:]]), lambda *i: value(i))
