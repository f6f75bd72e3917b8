import jax
import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both


def pool(initial, function, size=2):
    return lambda x: lax.reduce_window(x, initial, function, (1, size, size, 1), (1, 2, 2, 1), "SAME")


CASES = [
    PrimitiveCase("max pooling", both(pool(-jnp.inf, lax.max)), (2, 8, 8, 3)),
    PrimitiveCase("min pooling", pool(jnp.inf, lax.min), (2, 8, 8, 3)),
    PrimitiveCase("sum pooling", both(pool(0.0, lax.add)), (2, 8, 8, 3)),
    PrimitiveCase("overlapping pooling", both(pool(-jnp.inf, lax.max, 3)), (2, 8, 8, 3)),
    PrimitiveCase("overlapping min pooling", both(pool(jnp.inf, lax.min, 3)), (2, 8, 8, 3)),
    PrimitiveCase(
        "pooling forwards",
        lambda x, t: (jax.jvp(pool(-jnp.inf, lax.max, 3), (x,), (t,)), jax.jvp(pool(jnp.inf, lax.min), (x,), (t,))),
        (2, 8, 8, 3),
        (2, 8, 8, 3),
    ),
    PrimitiveCase("any pooling", pool(0.0, lambda a, b: a + b + a * b / 8, 3), (2, 8, 8, 3)),
]
