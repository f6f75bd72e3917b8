import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, each, integers
from tofu.verification.numbers import Fixed

CASES = [
    PrimitiveCase(
        "reductions", both(lambda x: (x.sum(1), x.max(0), x.min(2), x.mean((0, 2)), jnp.prod(x, 1))), (4, 6, 7)
    ),
    PrimitiveCase("product", lambda x: jnp.prod(x, 1), (4, 7)),
    PrimitiveCase("argmax", each(lambda x: jnp.argmax(x, 1), lambda x: jnp.argmin(x, 0)), (4, 7)),
    PrimitiveCase("softmax", both(jax.nn.log_softmax), (4, 7)),
    PrimitiveCase("logsumexp", both(lambda x: jax.nn.logsumexp(x, 0)), (4, 7)),
    PrimitiveCase(
        "running",
        each(
            lambda x: jnp.cumsum(x, 1),
            lambda x: lax.cummax(x, 0),
            lambda x: lax.cummin(x, 1),
            lambda x: jnp.cumprod(x, 0),
            lambda x: lax.cumlogsumexp(x, 0, reverse=True),
        ),
        (4, 7),
    ),
    PrimitiveCase("running sum", both(lambda x: jnp.cumsum(x, 1)), (4, 7)),
    PrimitiveCase("sort", lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), *lax.top_k(x, 3)), (4, 7)),
    PrimitiveCase("sort by two", lambda x, y: lax.sort((x, y), num_keys=2), integers(0, 3, 4, 7), (4, 7)),
    PrimitiveCase(
        "largest, approximately",
        each(lambda x: lax.approx_max_k(x, 3), lambda x: lax.approx_min_k(x, 2, reduction_dimension=0)),
        (6, 7),
    ),
    PrimitiveCase(
        "places in order",
        lambda x, y: (jnp.searchsorted(x, y, side="left"), jnp.searchsorted(x, y, side="right")),
        Fixed((-np.inf, -1.0, -0.0, 0.0, 0.5, 1.5, np.nan)),
        Fixed((0.0, -0.0, 0.5, np.nan, -2.0)),
    ),
    PrimitiveCase("any reduction", lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + a + b, (1,)), (4, 5, 6)),
    PrimitiveCase(
        "any reduction of two",
        lambda x, y: lax.reduce((x, y), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)),
        (5, 6),
        (5, 6),
    ),
    PrimitiveCase("order", each(lambda x: jnp.median(x, 0), lambda x: jnp.quantile(x, 0.3, 1)), (5, 6)),
]
