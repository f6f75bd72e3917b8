"""Loops of known length, and what is computed again in the backward pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from tdl_ops.jax.cases.building import both
from tofu.jax.verify.case import Case


def scan(x, w, reverse=False):
    """A recurrent layer."""
    return lax.scan(lambda h, y: (jnp.tanh(y + h @ w),) * 2, jnp.zeros((3, 7)), x, reverse=reverse)[1]


CASES = [
    Case("scan", both(scan), (4, 3, 7), (7, 7)),
    Case("scan from the end", lambda x, w: scan(x, w, reverse=True), (4, 3, 7), (7, 7)),
    Case("checkpoint", both(jax.checkpoint(lambda x, w: jnp.sin(x @ w))), (4, 7), (7, 7)),
]
