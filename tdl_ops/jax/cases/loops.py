import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, integers


def scan(x, w, reverse=False):
    return lax.scan(lambda h, y: (jnp.tanh(y + h @ w),) * 2, jnp.zeros((3, 7)), x, reverse=reverse)[1]


def halve(x):
    return lax.while_loop(lambda v: jnp.sum(v) > 1, lambda v: v / 2, x)


CASES = [
    PrimitiveCase("scan", both(scan), (4, 3, 7), (7, 7)),
    PrimitiveCase("scan from the end", lambda x, w: scan(x, w, reverse=True), (4, 3, 7), (7, 7)),
    PrimitiveCase("checkpoint", both(jax.checkpoint(lambda x, w: jnp.sin(x @ w))), (4, 7), (7, 7)),
    PrimitiveCase(
        "while",
        lambda x, n: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (n[0], x)),
        (4, 3),
        integers(0, 3, 1),
    ),
    PrimitiveCase(
        "pure_callback",
        lambda x: jax.pure_callback(np.cumsum, jax.ShapeDtypeStruct((12,), x.dtype), x, vmap_method="sequential"),
        (4, 3),
    ),
    PrimitiveCase("cond with a while in it", lambda x: lax.cond(jnp.sum(x) > 0, halve, jnp.sin, x), (4, 3)),
]
