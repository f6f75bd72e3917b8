"""Describe reshapes by index variables that both shapes share.

From (6, 4) to (2, 12), the description reads (a b, c) and writes (a, b c). The variables a, b and c have extents 2, 3
and 4, the *common refinement* of both shapes. A variable can be split if it is outermost in its dimension in both
shapes, or after all variables outside of it.

From (6, 4) to (8, 3), there is no common refinement. But both shapes consist of two equal blocks, (3, 4) and (4, 3),
with the same elements in the same order. The description has a variable over these blocks, which can be split. If a
block has no outermost dimension left in one shape, as from (12, 4) to (2, 8, 3), it is divided again. Only the interpreter
computes where an element is within its block.
"""

from itertools import pairwise
from math import gcd, prod

from tofu.tdl import Any, constant, merge, output, position


def _match_dimensions(source, target):
    """Match dimensions of equal products: in (2, 3, 4) and (6, 4), 2 and 3 match 6, and 4 matches 4."""
    runs, i, j = [], 0, 0
    while i < len(source) or j < len(target):
        begin_in, begin_out = i, j
        i, j = min(i + 1, len(source)), min(j + 1, len(target))
        while (size := prod(source[begin_in:i])) != (goal := prod(target[begin_out:j])):
            i, j = (i + 1, j) if size < goal else (i, j + 1)
        runs.append((range(begin_in, i), range(begin_out, j)))
    return runs


def reshape_to(data, target, read_like=lambda cell: 0.0):
    """Return `data` reshaped to `target`.

    For reshape_like, `read_like(index)` is an unread element of the tensor whose shape is used.
    """
    names, extents, readers = [], {}, []
    for run, (dims_in, dims_out) in enumerate(_match_dimensions(data.shape, target)):
        source, goal = [data.shape[d] for d in dims_in], [target[d] for d in dims_out]
        sizes = sorted({prod(shape[d:]) for shape in (source, goal) for d in range(len(shape) + 1)}, reverse=True)
        has_refinement = not any(outer % inner for outer, inner in pairwise(sizes))
        groups, known, read = _refine(source, goal, sizes) if has_refinement else _divide(source, goal)
        names += [[f"r{run}_{name}" for name in group] for group in groups]
        extents |= {f"r{run}_{name}": extent for name, extent in known.items()}
        readers.append((sum(map(len, groups)), read))

    def read(variables):
        index, rest, cells = [], variables, iter(variables)
        for count, reader in readers:
            index += reader(rest[:count])
            rest = rest[count:]
        own = tuple(merge(*(next(cells) for _ in group)) for group in names)
        return data[tuple(index)] + read_like(own)

    return output(" ".join(f"({' '.join(group)})" for group in names), lambda *v: read(v), extents)


def _refine(source, target, sizes):
    # Returns the names of the variables of each target dimension, the extents that do not follow from the target, and a
    # function from variables to source indices. `sizes` has the number of elements below each variable. A variable is
    # named after the number of its factor.
    def factors(shape):
        ends = [(prod(shape[d:]), prod(shape[d + 1 :])) for d in range(len(shape))]
        return [[n for n, size in enumerate(sizes[:-1]) if inner < size <= outer] for outer, inner in ends]

    groups_in, groups_out = factors(source), factors(target)
    # A dimension of extent 1 has no factor, so it needs a variable.
    names = [group or [f"one{d}"] for d, group in enumerate(groups_out)]
    extents = {n: sizes[n] // sizes[n + 1] for group in groups_out for n in group[1:]}

    def read(variables):
        values = dict(zip((name for group in names for name in group), variables, strict=True))
        return [merge(*(values[n] for n in group)) for group in groups_in]

    return names, extents, read


def _divide(source, target):
    # Returns the same as `_refine`, for the largest number of equal blocks. The variables over the blocks are named
    # from 0 on.
    blocks, counts, block_in, block_out = _find_blocks(source, target)
    names = [[*(n for n, (_, j) in enumerate(blocks) if j == d), len(blocks) + d] for d in range(len(target))]
    extents = dict(enumerate((*counts, *block_out)))

    def read(variables):
        values = dict(zip((name for group in names for name in group), variables, strict=True))
        inside = [values[len(blocks) + d] for d in range(len(target))]
        # Only the interpreter can compute an index from the position within the block.
        cell = sum((position(v) * prod(block_out[d + 1 :]) for d, v in enumerate(inside)), constant(0.0))
        cells = [(cell // prod(block_in[d + 1 :])) % extent for d, extent in enumerate(block_in)]
        index = []
        for d, extent in enumerate(block_in):
            numbers = [values[n] for n, (i, _) in enumerate(blocks) if i == d]
            index.append(Any(cells[d], merge(*numbers) * extent, extent) if numbers else Any(cells[d]))
        return index

    return names, {name: extents[name] for group in names for name in group[1:]}, read


def _find_blocks(source, target):
    # Returns the dimensions (source, target) that each number of blocks divides, the numbers, and both shapes of the
    # smallest blocks.
    blocks, counts, block_in, block_out = [], [], list(source), list(target)
    while True:
        i, j = (next(d for d, extent in enumerate(block) if extent > 1) for block in (block_in, block_out))
        count = gcd(block_in[i], block_out[j])
        if count == 1:
            return blocks, counts, block_in, block_out
        block_in[i] //= count
        block_out[j] //= count
        blocks.append((i, j))
        counts.append(count)
