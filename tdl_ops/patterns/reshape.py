"""Reshapes, written over the common refinement of both shapes.

From (6, 4) to (2, 12), the description reads (a b, c) and writes (a, b c) for a, b, c of extents 2, 3, 4. A variable
can be split if it is outermost in its dimension in both shapes.
"""

from itertools import pairwise
from math import prod

from tofu.tdl import Any, constant, merge, output, position


def _match_dimensions(source, target):
    """Split two shapes of one size into the shortest runs of dimensions of equal sizes."""
    runs, i, j = [], 0, 0
    while i < len(source) or j < len(target):
        begin_in, begin_out = i, j
        i, j = min(i + 1, len(source)), min(j + 1, len(target))
        while (size := prod(source[begin_in:i])) != (goal := prod(target[begin_out:j])):
            i, j = (i + 1, j) if size < goal else (i, j + 1)
        runs.append((range(begin_in, i), range(begin_out, j)))
    return runs


def _refine(source, target):
    """Return the factors of the common refinement, outermost first, and those of each source and target dimension.

    Return None if there is no common refinement, as for (2, 3) and (3, 2).
    """
    sizes = sorted({prod(shape[d:]) for shape in (source, target) for d in range(len(shape) + 1)}, reverse=True)
    if any(outer % inner for outer, inner in pairwise(sizes)):
        return None

    def factors(shape):
        ends = [(prod(shape[d:]), prod(shape[d + 1 :])) for d in range(len(shape))]
        return [[n for n, size in enumerate(sizes[:-1]) if inner < size <= outer] for outer, inner in ends]

    return [outer // inner for outer, inner in pairwise(sizes)], factors(source), factors(target)


def reshape_to(data, target, read_like=lambda cell: 0.0):
    """Return the output of a reshape of `data` to `target`.

    `read_like` adds what an element reads of the tensor that lends its shape.
    """
    names, extents, readers = [], {}, []
    for run, (dims_in, dims_out) in enumerate(_match_dimensions(data.shape, target)):
        source, goal = [data.shape[d] for d in dims_in], [target[d] for d in dims_out]
        refined = _refine(source, goal)
        if refined is None:
            names += [[f"r{run}_{d}"] for d in dims_out]
            readers.append((len(goal), lambda v, source=source, goal=goal: _find_cell(v, source, goal)))
            continue
        sizes, groups_in, groups_out = refined
        # A dimension of extent 1 has no factor, and gets a separate variable.
        names += [[f"r{run}_{n}" for n in group] or [f"r{run}_one{d}"] for d, group in enumerate(groups_out)]
        extents |= {f"r{run}_{n}": sizes[n] for group in groups_out for n in group[1:]}
        numbers = [n for group in groups_out for n in group or [None]]
        readers.append(
            (len(numbers), lambda v, n=numbers, g=groups_in: _merge_factors(dict(zip(n, v, strict=True)), g))
        )

    def read(variables):
        index, rest, cells = [], variables, iter(variables)
        for count, reader in readers:
            index += reader(rest[:count])
            rest = rest[count:]
        own = tuple(merge(*(next(cells) for _ in group)) for group in names)
        return data[tuple(index)] + read_like(own)

    return output(" ".join(f"({' '.join(group)})" for group in names), lambda *v: read(v), extents)


def _merge_factors(factors, groups):
    return [merge(*(factors[n] for n in group)) for group in groups]


def _find_cell(variables, source, goal):
    """Return the index in `source` with the row-major position of `variables` in `goal`.

    Only the interpreter can compute it.
    """
    cell = sum((position(v) * prod(goal[d + 1 :]) for d, v in enumerate(variables)), constant(0.0))
    return [Any((cell // prod(source[d + 1 :])) % extent) for d, extent in enumerate(source)]
