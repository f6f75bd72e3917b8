import jax
import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import integers, unless_lacking

CASES = [
    PrimitiveCase("one hot", lambda n: jax.nn.one_hot(n, 8), integers(0, 8, 5)),
    PrimitiveCase("iota", lambda x: x + jnp.arange(7.0), (4, 7)),
    PrimitiveCase("mask", lambda x: jnp.where(jnp.tril(jnp.ones((6, 6), bool)), x, -1e9), (6, 6)),
    *unless_lacking("empty", PrimitiveCase("empty", lambda x: lax.empty((4, 7), x.dtype) * 0 + x, (4, 7))),
    *unless_lacking(
        "empty2",
        PrimitiveCase(
            "residuals of branches",
            jax.grad(lambda x: lax.cond(x.sum() > 0, lambda x: x * jnp.sin(x), jnp.exp, x).sum()),
            (4, 7),
        ),
    ),
    PrimitiveCase("full", lambda x: x + jnp.full((4, 7), 2.5), (4, 7)),
]
