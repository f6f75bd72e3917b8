"""Solutions, singular values and eigenvalues of MXNet's NumPy interface. Matrices cannot be split."""

import numpy as np

from tdl_ops.mxnet import op
from tdl_ops.mxnet.factorization import apply, make_largest_positive
from tofu.errors import UnsupportedError
from tofu.tdl import Opaque, Sum, output, unread


def _by_column(function, a, *sides):
    opaque = Opaque(function)
    columns = lambda batch, n: (side[(*batch, slice(None), n)] for side in sides)
    return lambda batch, n: opaque(a[(*batch, slice(None), slice(None))], *columns(batch, n))


@op("_npi_solve")
def solve(a, b):
    if b.ndim < a.ndim:
        raise UnsupportedError(
            "solve for a vector is not described: MXNet has no gradient of it; a matrix of one column is"
        )
    solution = _by_column(np.linalg.solve, a, b)
    return output("*b i n", lambda *v: solution(v[:-2], v[-1])[v[-2]])


@op("_backward_npi_solve")
def backward_solve(d_out, a, b, out):
    slope = _by_column(lambda a, d: np.linalg.solve(a.T, d), a, d_out)
    product = _by_column(lambda a, d, x: -np.outer(np.linalg.solve(a.T, d), x), a, d_out, out)
    return (
        output("*b i j", lambda *v: Sum(lambda n: product(v[:-2], n)[v[-2:]])),
        output("*b i n", lambda *v: slope(v[:-2], v[-1])[v[-2]] + unread(b[v])),
    )


def _decompose(matrix):
    """Return singular vectors and values. As in MXNet, each right vector's largest element is positive."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    positive = make_largest_positive(right)
    return left * np.sum(positive * right, 1), values, positive


@op("_npi_svd")
def svd(a):
    return tuple(apply(_decompose, a, names=names, result=n) for n, names in enumerate(("i n", "n", "n j")))


def _gap(values):
    """Return the matrix of 1 / (s_j^2 - s_i^2) for singular values s, with zeros on the diagonal."""
    squares = values[None, :] ** 2 - values[:, None] ** 2 + np.eye(len(values))
    return 1 / squares - np.eye(len(values))


def _svd_gradient(d_left, d_values, d_right, left, values, right):
    # MXNet refuses matrices with more rows than columns.
    turn = lambda vectors, slope: _gap(values) * (vectors @ slope - slope.T @ vectors.T)
    inner = turn(left.T, d_left) * values + np.diag(d_values) + values[:, None] * turn(right, d_right.T)
    outside = (d_right - d_right @ right.T @ right) / values[:, None]
    return left @ (inner @ right + outside)


@op("_backward_npi_svd")
def backward_svd(d_left, d_values, d_right, left, values, right):
    return apply(_svd_gradient, d_left, d_values, d_right, left, values, right, own=(2, 1, 2, 2, 1, 2))


@op("_npi_eigh", needs={1: (0,)})
def eigh(a, *, UPLO="L"):
    vectors = lambda matrix: make_largest_positive(np.linalg.eigh(matrix, UPLO)[1].T).T
    return apply(lambda matrix: np.linalg.eigvalsh(matrix, UPLO), a, names="i"), apply(vectors, a)


@op("_npi_eigvalsh")
def eigvalsh(a, *, UPLO="L"):
    return eigh.function(a, UPLO=UPLO)[0]


@op("_npi_pinv_scalar_rcond")
def pinv(a, *, rcond=1e-15, hermitian=False):
    return apply(lambda matrix: np.linalg.pinv(matrix, rcond, hermitian), a)
