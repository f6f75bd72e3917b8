"""Describe operators that move elements: concatenate, split, and pick slices."""

from tofu.tdl import position, scatter, unread, where


def shift(i, dim, distance):
    """Return the index `i` moved by `distance` along `dim`."""
    return (*i[:dim], i[dim] + distance, *i[dim + 1 :])


def join(parts, begins, dim):
    """Return the concatenation of `parts`. `begins` has their positions."""
    return lambda *i: sum(part[shift(i, dim, -begin)] for part, begin in zip(parts, begins, strict=True))


def cut(data, begins, dim, shapes=()):
    """Return the parts of `data` that start at the positions in `begins`.

    `shapes` are tensors with the shapes of the parts.
    """

    def part(n, begin):
        at = lambda i: shift(i, dim, -begin)
        value = lambda i: data[i] + (unread(shapes[n][at(i)]) if shapes else 0.0)
        return scatter(lambda *i: (at(i), value(i)), {f"i{dim}": data.shape[dim]}, rank=data.ndim)

    return tuple(part(n, begin) for n, begin in enumerate(begins))


def pick(data, cells, dim):
    """Return the slices of `data` at the indices in `cells`, without dimension `dim`."""

    def part(n):
        chosen = lambda i: where(position(i[dim]) == n, data[i], 0.0)
        return scatter(lambda *i: ((*i[:dim], *i[dim + 1 :]), chosen(i)), {f"i{dim}": data.shape[dim]}, rank=data.ndim)

    return tuple(part(n) for n in cells)
