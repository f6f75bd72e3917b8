import jax
import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, each, integers
from tofu.verification.numbers import Fixed


def read(mode, **options):
    return both(lambda w, i: w.at[i].get(mode=mode, **options))


def update(x, y, n):
    return lax.dynamic_update_slice_in_dim(x, y, n, 0)


def update_block(x, y, n, m):
    return lax.dynamic_update_slice(x, y, (n, n * 0, m))


BLOCK = Fixed(2, "int32"), Fixed(-1, "int32")
WRITES = each(
    *(lambda x, i, u, name=name: getattr(x.at[i], name)(u) for name in ("set", "add", "multiply", "max", "min"))
)

CASES = [
    PrimitiveCase("embedding", both(lambda w, i: w[i]), (8, 5), integers(0, 8, 4, 6)),
    PrimitiveCase("embedding, clipped", read("clip"), (8, 5), integers(-4, 12, 4, 6)),
    PrimitiveCase("embedding, filled", read("fill", fill_value=-3.0), (8, 5), integers(0, 12, 4, 6)),
    PrimitiveCase("two indices", both(lambda w, i, j: w[i, :, j]), (4, 3, 5), integers(0, 4, 6), integers(0, 5, 6)),
    PrimitiveCase(
        "a window of another place",
        lambda w, i: lax.gather(
            w, i, lax.GatherDimensionNumbers((1,), (1,), (0, 1)), (3, 1), mode=lax.GatherScatterMode.CLIP
        ),
        (6, 5),
        integers(0, 7, 4, 2),
    ),
    PrimitiveCase("take along axis", both(lambda x, i: jnp.take_along_axis(x, i, 1)), (4, 7), integers(0, 7, 4, 3)),
    PrimitiveCase("writes", WRITES, (8, 4), Fixed((5, 2, 7), "int32"), (3, 4)),
    PrimitiveCase("additions to one cell", lambda x, i, u: x.at[i].add(u), (4, 3), integers(0, 4, 9), (9, 3)),
    PrimitiveCase("dynamic slice", both(lambda x, n: lax.dynamic_slice_in_dim(x, n, 3, 0)), (8, 5), Fixed(3, "int32")),
    PrimitiveCase(
        "dynamic slice beyond the end", lambda x, n: lax.dynamic_slice_in_dim(x, n, 4, 0), (9, 5), Fixed(7, "int32")
    ),
    PrimitiveCase("dynamic update of a block", both(update_block), (8, 3, 6), (5, 3, 2), *BLOCK),
    PrimitiveCase("dynamic update", both(update), (8, 5), (3, 5), Fixed(3, "int32")),
    PrimitiveCase(
        "dynamic update of everything",
        each(
            both(lambda x, y, n: lax.dynamic_update_slice(x, y, (n, n)) * y),
            both(lambda x, y, n: update(x[None], y[None], n) * 2.0),
        ),
        (8, 6),
        (8, 6),
        Fixed(0, "int32"),
    ),
    PrimitiveCase(
        "whole lines, each with an index",
        both(lambda x, i: jax.vmap(lambda line, n: lax.dynamic_slice_in_dim(line, n, 6, 0) ** 2)(x, i)),
        (8, 6),
        integers(0, 6, 8),
    ),
    PrimitiveCase(
        "updates of whole lines, each with an index",
        both(lambda x, i: jax.vmap(lambda line, n: update(line, 2.0 * line, n))(x, i)),
        (8, 6),
        integers(0, 6, 8),
    ),
    PrimitiveCase(
        "a promise that is broken", lambda w, i: w.at[i].get(mode="promise_in_bounds"), (8, 5), integers(-20, 20, 9)
    ),
    PrimitiveCase("subtractions", lambda x, i, u: x.at[i].subtract(u), (4, 3), integers(0, 4, 9), (9, 3)),
    PrimitiveCase("diagonals", both(lambda x: (jnp.diagonal(x), jnp.diag(x[0]), jnp.trace(x))), (6, 6)),
    PrimitiveCase("determinant of one matrix", both(jnp.linalg.det), (3, 3)),
]
