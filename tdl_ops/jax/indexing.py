"""Describe gather and the scatters, which read or write slices of an operand at positions that are data.

An embedding `table[words]` *looks up* dimension 0 of the table. If this dimension is split, each worker looks up the
words in its own shard, which begins at row `first`. It returns zeros for other words, and the results are added. A
scatter writes only rows of the worker's shard. `rows` has the extents of the complete table.
"""

from dataclasses import dataclass

from tdl_ops.jax import op
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Max, Min, Prod, Sum, maximum, minimum, output, position, unread, where

AXES = [f"v{d}" for d in range(8)]
SMALLEST = {"bool": 0.0, "int8": -(2.0**7), "int16": -(2.0**15), "int32": -(2.0**31), "int64": -(2.0**63)}
LARGEST = {"uint8": 2.0**8 - 1, "uint16": 2.0**16 - 1, "uint32": 2.0**32 - 1, "uint64": 2.0**64 - 1}


@dataclass(frozen=True)
class Lookup:
    """Dimensions of a gather or scatter. Each index chooses where a slice of the operand begins.

    Attributes
    ----------
    sizes
        The extents of a slice.
    index_map
        Dimensions of the operand for which there are indices.
    shared
        {dimension of the operand: dimension of the slices} if both have equal positions.
    window
        {dimension of the operand: dimension of the slices} if the slices begin at an index.
    batch
        Dimensions that number the slices, in the order of the indices' dimensions.
    """

    sizes: tuple
    index_map: tuple
    shared: dict
    window: dict
    batch: tuple

    def find_row(self, indices, i, d):
        """Return the index along dimension `d` for the slice with element `i`."""
        return indices[(*(i[b] for b in self.batch), self.index_map.index(d))]

    def find_start(self, indices, i, d, rows, mode):
        """Return where the slice begins along dimension `d`. With mode "CLIP", the slice is moved into the operand."""
        row = self.find_row(indices, i, d)
        return maximum(0.0, minimum(row, float(rows[d] - self.sizes[d]))) if mode == "CLIP" else row

    def find_shared(self, i, d):
        return i[self.shared[d]] if d in self.shared else 0  # such a dimension has one element

    def is_inside(self, indices, i, rows):
        """Return the condition that a slice is inside the operand. Return None without indices."""
        inside = None
        for d in self.index_map:
            row = self.find_row(indices, i, d)
            here = (row >= 0) & (row <= float(rows[d] - self.sizes[d]))
            inside = here if inside is None else inside & here
        return inside

    @property
    def looked_up(self):
        return tuple(d for d in self.index_map if d not in self.shared)


def _relate(shape, rank, sizes, offset_dims, collapsed, index_map, batching, mode):
    if mode not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise UnsupportedError(f"mode={mode} is not described")
    batch = tuple(d for d in range(rank) if d not in offset_dims)
    inner = [d for d in range(len(shape)) if d not in collapsed and d not in batching]
    window = dict(zip(inner, offset_dims, strict=True))
    shared = {d: w for d, w in window.items() if sizes[d] == shape[d] or d not in index_map}
    shared |= {d: batch[n] for d, n in batching.items()}
    return Lookup(tuple(sizes), tuple(index_map), shared, {d: w for d, w in window.items() if d not in shared}, batch)


def _local_first(local):
    return tuple(local.start(f"v{d}") if local.has(f"v{d}") else 0 for d in range(len(local.inputs[0].shape)))


def _local_rows(local):
    """Return the shape of the shard, but with the whole extent of each dimension that is looked up."""
    own = local.inputs[0].shape
    return tuple(local.whole(f"v{d}") if local.has(f"v{d}") else extent for d, extent in enumerate(own))


BOUND = {"first": _local_first, "rows": _local_rows}
"""Attributes of primitives that look up positions: where a worker's shard begins, and the extents without splits."""


def _local_sizes(local):
    # A slice that spans a split dimension gets the extent of the shard.
    sizes, own = local.attributes["slice_sizes"], local.inputs[0].shape
    is_spanned = lambda d, size: local.is_split(f"w{d}") and size == local.whole(f"w{d}")
    return tuple(
        extent if is_spanned(d, size) else size for d, (size, extent) in enumerate(zip(sizes, own, strict=True))
    )


def _find_fill(fill_value, name):
    if fill_value is not None:
        return float(fill_value)
    return SMALLEST.get(name, LARGEST.get(name, float("nan")))


@op("gather", concrete=True, starts=AXES, bound={"slice_sizes": _local_sizes, **BOUND})
def gather(
    operand,
    indices,
    *,
    output_shapes,
    output_types,
    slice_sizes,
    offset_dims,
    collapsed_slice_dims,
    start_index_map,
    operand_batching_dims=(),
    start_indices_batching_dims=(),
    mode="PROMISE_IN_BOUNDS",
    fill_value=None,
    first=(),
    rows=(),
):
    rank = len(output_shapes[0])
    first, rows = first or (0,) * operand.ndim, rows or operand.shape
    batching = dict(zip(operand_batching_dims, start_indices_batching_dims, strict=True))
    looks = _relate(
        operand.shape, rank, slice_sizes, offset_dims, collapsed_slice_dims, start_index_map, batching, mode
    )
    names = {w: f"w{d}" for d, w in looks.shared.items()}
    pattern = " ".join(names.get(d, f"i{d}") for d in range(rank))
    fill = _find_fill(fill_value, output_types[0])
    moved = mode if mode == "FILL_OR_DROP" else "CLIP"  # XLA clips indices that were promised to be in bounds
    start = lambda i, d: looks.find_start(indices, i, d, rows, moved)
    is_added = not output_types[0].startswith("key<")  # random keys cannot be added
    if len(looks.index_map) == len(looks.looked_up) == 1 and looks.looked_up[0] not in looks.window and is_added:
        (d,) = looks.looked_up

        def found(i, v):
            number = position(v) + first[d]
            cell = operand[tuple(v if o == d else looks.find_shared(i, o) for o in range(operand.ndim))]
            value = where(number == start(i, d), cell, 0.0)
            if mode != "FILL_OR_DROP":
                return value
            return where(looks.is_inside(indices, i, rows), value, where(number == 0, fill, 0.0))

        return output(pattern, lambda *i: Sum(lambda *v: found(i, *v), names=f"v{d}"))

    def read(i):
        offset = lambda d: position(i[looks.window[d]]) if d in looks.window else 0.0
        at = lambda d: Any(start(i, d) + offset(d)) if d in looks.looked_up else looks.find_shared(i, d)
        cell = operand[tuple(at(d) for d in range(operand.ndim))]
        if not looks.looked_up:  # every slice starts at 0, but there is one for each index
            cell += sum(unread(looks.find_row(indices, i, d)) for d in looks.index_map)
        if mode != "FILL_OR_DROP" or not looks.index_map:
            return cell
        return where(looks.is_inside(indices, i, rows), cell, fill)

    return output(pattern, lambda *i: read(i))


# Functions that combine an element (cell) with its updates. `over` reduces the updates. If several plain updates have
# the same position, the result is not defined.
JOINED = {
    "scatter": lambda cell, over: where(over(Max, lambda u: 1.0, 0.0) > 0, over(Sum, lambda u: u, 0.0), cell),
    "scatter-add": lambda cell, over: cell + over(Sum, lambda u: u, 0.0),
    "scatter-sub": lambda cell, over: cell - over(Sum, lambda u: u, 0.0),
    "scatter-mul": lambda cell, over: cell * over(Prod, lambda u: u, 1.0),
    "scatter-max": lambda cell, over: over(Max, lambda u: maximum(cell, u), cell),
    "scatter-min": lambda cell, over: minimum(cell, over(Min, lambda u: u, float("inf"))),
}


def _describe_scatter(join):
    def description(
        operand,
        indices,
        updates,
        *,
        update_window_dims,
        inserted_window_dims,
        scatter_dims_to_operand_dims,
        operand_batching_dims=(),
        scatter_indices_batching_dims=(),
        mode="FILL_OR_DROP",
        first=(),
        rows=(),
    ):
        first, rows = first or (0,) * operand.ndim, rows or operand.shape
        inserted, index_map = inserted_window_dims, scatter_dims_to_operand_dims
        batching = dict(zip(operand_batching_dims, scatter_indices_batching_dims, strict=True))
        inner = [d for d in range(operand.ndim) if d not in (*inserted, *batching)]
        spans = dict(zip(inner, (updates.shape[u] for u in update_window_dims), strict=True))
        sizes = [spans.get(d, 1) for d in range(operand.ndim)]
        looks = _relate(operand.shape, updates.ndim, sizes, update_window_dims, inserted, index_map, batching, mode)
        reduced = [u for u in range(updates.ndim) if u not in looks.shared.values()]

        def value(c):
            known = {u: c[d] for d, u in looks.shared.items()}

            def is_hit(i):
                hit = looks.is_inside(indices, i, rows) if mode != "CLIP" and looks.index_map else None
                for d in looks.looked_up:
                    offset = position(i[looks.window[d]]) if d in looks.window else 0.0
                    here = position(c[d]) + first[d] == looks.find_start(indices, i, d, rows, mode) + offset
                    hit = here if hit is None else hit & here
                return hit

            def over(reducer, function, neutral):
                def each(*r):
                    i = known | dict(zip(reduced, r, strict=True))
                    hit, new = is_hit(i), function(updates[tuple(i[u] for u in range(updates.ndim))])
                    if not looks.looked_up:
                        new += sum(unread(looks.find_row(indices, i, d)) for d in looks.index_map)
                    return new if hit is None else where(hit, new, neutral)

                return reducer(each, names=" ".join(f"u{u}" for u in reduced)) if reduced else each()

            return join(operand[c], over)

        names = (f"w{d}" if d in looks.shared else f"v{d}" for d in range(operand.ndim))
        return output(" ".join(names), lambda *c: value(c))

    return description


for _name, _join in JOINED.items():
    op(_name, concrete=True, starts=AXES, bound=BOUND)(_describe_scatter(_join))
