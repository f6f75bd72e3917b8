"""Factorizations, inverses and determinants of the matrices in the last two dimensions, and their gradients.

They are described by NumPy functions of a matrix, so only the leading dimensions can be split. LAPACK reads MXNet's
row-major matrices as transposed matrices, and returns the factors of these.
"""

import numpy as np

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, output


def apply(function, *tensors, names="i j", own=2, result=None):
    """Return an output that applies `function` to each element of a batch.

    `names` are the output's dimensions after the batch. `own` is the number of dimensions that the function reads: 2
    for a matrix, 1 for a vector, or a list with a number for each tensor. `result` chooses one of several results.
    """
    opaque = Opaque(function if result is None else lambda *given: function(*given)[result])
    ranks = [own] * len(tensors) if isinstance(own, int) else own
    whole = lambda tensor, b, n: tensor[(*b, *(slice(None),) * n)]
    cell = lambda b, place: opaque(*(whole(t, b, n) for t, n in zip(tensors, ranks, strict=True)))[place]
    rank = len(names.split())
    return output(f"*b {names}", lambda *v: cell(v[: len(v) - rank], v[len(v) - rank :]))


def mirrored(function, is_lower):
    """Return `function` if `is_lower` is True. Otherwise, convert it from lower to upper triangles."""
    return function if is_lower else lambda *matrices: function(*(matrix.T for matrix in matrices)).T


def _symmetric(matrix):
    return np.tril(matrix) + np.tril(matrix, -1).T


@op("_linalg_inverse")
def inverse(a):
    return apply(np.linalg.inv, a)


@op("_backward_linalg_inverse")
def backward_inverse(d_out, out):
    return apply(lambda d, y: -y.T @ d @ y.T, d_out, out)


@op("_linalg_potrf")
def potrf(a, *, lower=True):
    return apply(mirrored(np.linalg.cholesky, lower), a)


def _potrf_gradient(d_factor, factor):
    inverse = np.linalg.inv(factor)
    return 0.5 * inverse.T @ _symmetric(factor.T @ d_factor) @ inverse


@op("_backward_linalg_potrf")
def backward_potrf(d_out, factor, *, lower=True):
    return apply(mirrored(_potrf_gradient, lower), d_out, factor)


@op("_linalg_potri")
def potri(factor, *, lower=True):
    return apply(mirrored(lambda matrix: np.linalg.inv(np.tril(matrix) @ np.tril(matrix).T), lower), factor)


@op("_backward_linalg_potri")
def backward_potri(d_out, factor, out, *, lower=True):
    gradient = lambda d, matrix, y: -np.tril(y @ (d + d.T) @ y @ np.tril(matrix))
    return apply(mirrored(gradient, lower), d_out, factor, out)


def _factor_lq(matrix):
    q, r = np.linalg.qr(matrix.T)
    return q.T, r.T


@op("_linalg_gelqf")
def gelqf(a):
    return apply(_factor_lq, a, result=0), apply(_factor_lq, a, names="i q", result=1)


def _gelqf_gradient(d_q, d_l, q, lower):
    inner = lower.T @ d_l - d_q @ q.T
    return np.linalg.inv(lower).T @ (d_q + _symmetric(inner) @ q)


@op("_backward_linalg_gelqf")
def backward_gelqf(d_q, d_l, q, lower):
    return apply(_gelqf_gradient, d_q, d_l, q, lower)


def make_largest_positive(vectors):
    """Flip signs of rows: [1, -3] becomes [-1, 3], whose element of largest magnitude is positive."""
    return vectors * np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(1)[:, None], 1))


@op("_linalg_syevd")
def syevd(a):
    vectors = lambda matrix: make_largest_positive(np.linalg.eigh(matrix)[1].T)
    return apply(vectors, a), apply(np.linalg.eigvalsh, a, names="i")


def _syevd_gradient(d_vectors, d_values, vectors, values):
    distance = values[:, None] - values
    slopes = np.divide(d_vectors @ vectors.T, distance, out=np.diag(d_values), where=distance != 0)
    return vectors.T @ (0.5 * (slopes + slopes.T)) @ vectors


@op("_backward_linalg_syevd")
def backward_syevd(d_vectors, d_values, vectors, values):
    return apply(_syevd_gradient, d_vectors, d_values, vectors, values, own=(2, 1, 2, 1))


def _factor_lu(matrix):
    factors, pivots = matrix.T.copy(), np.zeros(len(matrix))
    for k in range(len(matrix)):
        row = k + np.argmax(np.abs(factors[k:, k]))
        factors[[k, row]], pivots[k] = factors[[row, k]], row + 1
        factors[k + 1 :, k] /= factors[k, k]
        factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
    return factors.T, pivots


def _inverse_from_lu(factors, pivots):
    product = (np.tril(factors.T, -1) + np.eye(len(factors))) @ np.triu(factors.T)
    for k in reversed(range(len(factors))):
        product[[k, int(pivots[k]) - 1]] = product[[int(pivots[k]) - 1, k]]
    return np.linalg.inv(product)


def _saved(a):
    return apply(_factor_lu, a, result=0), apply(_factor_lu, a, result=1, names="i")


@op("_linalg_det")
def det(a):
    return apply(np.linalg.det, a, names=""), *_saved(a)


@op("_backward_linalg_det")
def backward_det(d_out, out, factors, pivots):
    return apply(lambda d, y, lu, p: d * y * _inverse_from_lu(lu, p), d_out, out, factors, pivots, own=(0, 0, 2, 1))


@op("_linalg_slogdet")
def slogdet(a):
    return *(apply(np.linalg.slogdet, a, names="", result=n) for n in (0, 1)), *_saved(a)


@op("_backward_linalg_slogdet")
def backward_slogdet(d_out, sign, out, factors, pivots):
    gradient = lambda d, s, y, lu, p: d * _inverse_from_lu(lu, p)
    return apply(gradient, d_out, sign, out, factors, pivots, own=(0, 0, 0, 2, 1))
