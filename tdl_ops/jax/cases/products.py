import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, complexes, pair
from tofu.verification.numbers import Fixed

CASES = [
    PrimitiveCase("dot", both(lambda x, w: x @ w), (4, 7), (7, 6)),
    PrimitiveCase("batched dot", both(lambda q, k: jnp.einsum("bthe,bshe->bhts", q, k)), (2, 4, 3, 5), (2, 4, 3, 5)),
    PrimitiveCase("dot of three", both(lambda x, w: jnp.einsum("btd,dhe->bthe", x, w)), (4, 3, 7), (7, 5, 2)),
    PrimitiveCase("inner product", both(jnp.dot), (8,), (8,)),
    PrimitiveCase(
        "symmetric product", lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5), (3, 4, 5), (3, 4, 4)
    ),
    PrimitiveCase("products of groups", both(lax.ragged_dot), (7, 4), (3, 4, 5), Fixed((2, 0, 5), "int32")),
    PrimitiveCase("dot of complex numbers", lambda x, w: pair(x) @ pair(w), complexes(4, 7), complexes(7, 6)),
]
