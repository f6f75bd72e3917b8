import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, unless_lacking


def offload(x: jax.Array) -> jax.Array:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host"
    )
    layer = jax.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.tanh(x), "h")), policy=policy)
    return jax.grad(lambda x: layer(x).sum())(x)


CASES = [
    PrimitiveCase("cropped at the end", both(lambda x: lax.pad(x, 0.0, ((0, -4, 0), (0, 0, 0)))), (12, 6)),
    PrimitiveCase("cropped and padded", both(lambda x: lax.pad(x, 0.0, ((1, -2, 0), (-1, 1, 0)))), (12, 6)),
    PrimitiveCase("reshape", both(lambda x: x.reshape(4, 9, 6).reshape(4, 3, 3, 6).reshape(12, 18)), (36, 6)),
    PrimitiveCase(
        "reshape to sizes that do not nest", both(lambda x: x.reshape(5, 1, 9, 20).reshape(5, 6, 30)), (5, 12, 15)
    ),
    PrimitiveCase("reshape in another order", lambda x: lax.reshape(x, (9, 6, 4), (2, 1, 0)), (4, 6, 9)),
    PrimitiveCase("squeeze", both(lambda x: x[:, None].squeeze(1)[:, :, None]), (4, 7)),
    PrimitiveCase("transpose", both(lambda x: x.transpose(2, 0, 1)), (4, 6, 7)),
    PrimitiveCase(
        "concatenate, slice", both(lambda x, y: jnp.concatenate([x, y, x[:, :2]], 1)[:, 2:10]), (4, 6), (4, 4)
    ),
    PrimitiveCase("strided slice", both(lambda x: x[::2, 1::3]), (8, 13)),
    PrimitiveCase("split", both(lambda x: sum(jnp.split(x, 4, 1))), (4, 12)),
    PrimitiveCase("pad", both(lambda x: jnp.pad(x, ((1, 3), (2, 2)), constant_values=2.5)), (4, 7)),
    PrimitiveCase("pad by less", lambda x: lax.pad(x, 0.0, ((-1, 3, 0), (1, -2, 2))), (4, 7)),
    PrimitiveCase("stack", both(lambda x, y: jnp.stack([x, y, x * y], 1)), (4, 7), (4, 7)),
    PrimitiveCase(
        "stack of numbers", lambda x: jnp.stack([2.0, 3.0, 5.0, x.sum()]) * jnp.stack([7.0, 1.0, 4.0, 8.0]), (4, 7)
    ),
    PrimitiveCase("unstack", both(lambda x: sum(jnp.unstack(x, axis=1))), (4, 5, 7)),
    PrimitiveCase("tile", both(lambda x: jnp.tile(x, (2, 3))), (4, 7)),
    PrimitiveCase("reverse", both(lambda x: x[::-1]), (8, 5)),
    PrimitiveCase("barrier", both(lambda x, y: sum(lax.optimization_barrier((x, x * y)))), (4, 7), (4, 7)),
    PrimitiveCase("barrier of two ranks", both(lambda x, y: lax.optimization_barrier((x, y))), (4, 7), (3,)),
    *unless_lacking("device_put", PrimitiveCase("offloaded", offload, (4, 7))),
]
