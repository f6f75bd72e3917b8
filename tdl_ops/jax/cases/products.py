"""Sums of products: matrices, batches of them, convolutions."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.cases.building import both, complexes, pair
from tofu.jax.verify.case import Case
from tofu.verification.numbers import Fixed


def convolve(stride=1, padding="SAME", dilation=1, groups=1):
    """A convolution of images with its gradients, which are convolutions too."""
    return both(
        lambda x, w: lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            padding,
            rhs_dilation=(dilation, dilation),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
    )


CASES = [
    Case("dot", both(lambda x, w: x @ w), (4, 7), (7, 6)),
    Case("batched dot", both(lambda q, k: jnp.einsum("bthe,bshe->bhts", q, k)), (2, 4, 3, 5), (2, 4, 3, 5)),
    Case("dot of three", both(lambda x, w: jnp.einsum("btd,dhe->bthe", x, w)), (4, 3, 7), (7, 5, 2)),
    Case("inner product", both(jnp.dot), (8,), (8,)),
    Case("convolution", convolve(), (2, 6, 7, 4), (3, 3, 4, 5)),
    Case("convolution, stride", convolve(2), (2, 8, 8, 4), (3, 3, 4, 5)),
    Case("convolution, 1 x 1 stride", convolve(2), (2, 8, 8, 4), (1, 1, 4, 5)),
    Case("convolution, dilated", convolve(1, "SAME", 2), (2, 6, 6, 4), (3, 3, 4, 5)),
    Case("convolution, valid", convolve(1, "VALID"), (2, 7, 7, 4), (3, 3, 4, 5)),
    Case("convolution, groups", convolve(groups=2), (2, 6, 6, 4), (3, 3, 2, 6)),
    Case("convolution, depthwise", convolve(groups=4), (2, 6, 6, 4), (3, 3, 1, 4)),
    Case("convolution, groups, stride", convolve(2, groups=2), (2, 6, 6, 4), (3, 3, 2, 6)),
    Case(
        "symmetric product", lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5), (3, 4, 5), (3, 4, 4)
    ),
    Case("products of groups", both(lax.ragged_dot), (7, 4), (3, 4, 5), Fixed((2, 0, 5), "int32")),
    Case("dot of complex numbers", lambda x, w: pair(x) @ pair(w), complexes(4, 7), complexes(7, 6)),
]
