"""Factorizations of matrices in the last two dimensions: opaque, split along the others."""

from __future__ import annotations

import numpy as np

from tdl_ops.jax import op
from tofu.errors import UnsupportedError
from tofu.tdl import Opaque


@op("cholesky")
def cholesky(operand, *, symmetrize_input=True):
    symmetric = lambda matrix: (matrix + matrix.T) / 2 if symmetrize_input else matrix
    # What stands above the diagonal is left as it was on CPUs; jnp.linalg.cholesky makes it zeros.
    whole = lambda matrix: np.linalg.cholesky(matrix) + np.triu(matrix, 1)
    factor = Opaque(lambda matrix: whole(symmetric(matrix)), "cholesky")
    return lambda *i: factor(operand[(*i[:-2], slice(None), slice(None))])[i[-2], i[-1]]


@op("triangular_solve")
def triangular_solve(a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    if conjugate_a:
        raise UnsupportedError("triangular_solve of a conjugated matrix is not described")

    def solve(a, b):
        a = np.tril(a) if lower else np.triu(a)
        if unit_diagonal:
            a = a - np.diag(np.diag(a)) + np.eye(len(a))
        return np.linalg.solve(a.T if transpose_a == left_side else a, b)

    solved = Opaque(solve, "triangular_solve")
    matrix = lambda i: a[(*i[:-2], slice(None), slice(None))]
    if left_side:  # each column alone, or each row
        return lambda *i: solved(matrix(i), b[(*i[:-2], slice(None), i[-1])])[i[-2]]
    return lambda *i: solved(matrix(i), b[(*i[:-1], slice(None))])[i[-1]]
