"""Factorizations of matrices, alone and in batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from tdl_ops.jax.cases.building import both
from tofu.jax.verify.case import Case


def make_positive(x):
    """Symmetric matrices whose eigenvalues are positive."""
    return x @ x.mT + 4 * jnp.eye(x.shape[-1])


def make_lower(x):
    """Triangular matrices far from singular."""
    return jnp.tril(x) + 3 * jnp.eye(x.shape[-1])


CASES = [
    Case("Cholesky factors", both(lambda x: jnp.linalg.cholesky(make_positive(x))), (4, 3, 3)),
    Case("triangular", both(lambda a, b: solve_triangular(make_lower(a), b, lower=True)), (3, 3), (3, 4)),
    Case(
        "triangular, in batches",
        jax.vmap(both(lambda a, b: solve_triangular(make_lower(a).T, b, trans=1, unit_diagonal=True))),
        (4, 3, 3),
        (4, 3, 2),
    ),
]
