"""Cells that are moved: put together, cut apart, and picked out of a dimension."""

from __future__ import annotations

from tofu.tdl import position, scatter, unread, where


def shift(i, dim, distance):
    """The cell `distance` further along `dim`."""
    return (*i[:dim], i[dim] + distance, *i[dim + 1 :])


def join(parts, begins, dim):
    """The sum of all parts, each from its begin on; a cell is in one of them, and outside of the others, where they are zero."""
    return lambda *i: sum(part[shift(i, dim, -begin)] for part, begin in zip(parts, begins, strict=True))


def cut(data, begins, dim, shapes=()):
    """What lies in `data` from each begin on, as far as an output reaches: cells outside are dropped. `shapes` are tensors like them."""

    def part(n, begin):
        at = lambda i: shift(i, dim, -begin)
        value = lambda i: data[i] + (unread(shapes[n][at(i)]) if shapes else 0.0)
        return scatter(lambda *i: (at(i), value(i)), {f"i{dim}": data.shape[dim]}, rank=data.ndim)

    return tuple(part(n, begin) for n, begin in enumerate(begins))


def pick(data, cells, dim):
    """The slices at each of `cells` of a dimension, without it."""

    def part(n):
        chosen = lambda i: where(position(i[dim]) == n, data[i], 0.0)
        return scatter(lambda *i: ((*i[:dim], *i[dim + 1 :]), chosen(i)), {f"i{dim}": data.shape[dim]}, rank=data.ndim)

    return tuple(part(n) for n in cells)
