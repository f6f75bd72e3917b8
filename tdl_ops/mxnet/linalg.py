"""Linear algebra on the matrices in the last two dimensions, and its gradients.

All operators can be split by the leading dimensions. Products can also be split by rows, columns and the contracted
dimension. Triangular products and systems can also be split by the columns of the second matrix (by its rows under
`rightside`).
"""

import numpy as np

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, Sum, output, position, where


def _matrix(tensor, b):
    return tensor[(*b, slice(None), slice(None))]


class Rows:
    """Indices into matrices with rows along `axis` and columns along the last dimension."""

    def __init__(self, axis, rank):
        self.axis, self.others = axis % rank, [f"b{d}" for d in range(rank - 2)]

    def __call__(self, b, row, column, transpose=False):
        row, column = (column, row) if transpose else (row, column)
        return (*b[: self.axis], row, *b[self.axis :], column)

    def output(self, body, row, column, transpose=False):
        pattern = " ".join(self(self.others, row, column, transpose))
        order = [name in (row, column) for name in pattern.split()]

        def value(*v):
            own = dict(zip(pattern.split(), v, strict=True))
            return body([u for u, is_own in zip(v, order, strict=True) if not is_own], own[row], own[column])

        return output(pattern, lambda *v: value(*v))


def _product(a, b_, at, transpose_a, transpose_b, alpha):
    cells = lambda b, i, j, k: a[at(b, i, k, transpose_a)] * b_[at(b, k, j, transpose_b)]
    return lambda b, i, j: alpha * Sum(lambda k: cells(b, i, j, k))


@op("_linalg_gemm2")
def gemm2(a, b, *, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2):
    at = Rows(axis, a.ndim)
    return at.output(_product(a, b, at, transpose_a, transpose_b, alpha), "i", "j")


@op("_linalg_gemm")
def gemm(a, b, c, *, transpose_a=False, transpose_b=False, alpha=1.0, beta=1.0, axis=-2):
    at = Rows(axis, a.ndim)
    product = _product(a, b, at, transpose_a, transpose_b, alpha)
    return at.output(lambda b, i, j: product(b, i, j) + beta * c[at(b, i, j)], "i", "j")


@op("_backward_linalg_gemm2")
def backward_gemm2(d_out, a, b, *, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2):
    at = Rows(axis, a.ndim)
    left = lambda n, i, k: alpha * Sum(lambda j: d_out[at(n, i, j)] * b[at(n, k, j, transpose_b)])
    right = lambda n, k, j: alpha * Sum(lambda i: a[at(n, i, k, transpose_a)] * d_out[at(n, i, j)])
    return at.output(left, "i", "k", transpose_a), at.output(right, "k", "j", transpose_b)


@op("_backward_linalg_gemm")
def backward_gemm(d_out, a, b, c, *, transpose_a=False, transpose_b=False, alpha=1.0, beta=1.0, axis=-2):
    at = Rows(axis, a.ndim)
    products = backward_gemm2.function(
        d_out, a, b, transpose_a=transpose_a, transpose_b=transpose_b, alpha=alpha, axis=axis
    )
    return *products, at.output(lambda n, i, j: beta * d_out[at(n, i, j)] + 0 * c[at(n, i, j)], "i", "j")


@op("_linalg_syrk")
def syrk(a, *, transpose=False, alpha=1.0):
    at = Rows(-2, a.ndim)
    cells = lambda b, i, j, k: a[at(b, i, k, transpose)] * a[at(b, j, k, transpose)]
    return at.output(lambda b, i, j: alpha * Sum(lambda k: cells(b, i, j, k)), "i", "j")


@op("_backward_linalg_syrk")
def backward_syrk(d_out, a, *, transpose=False, alpha=1.0):
    at = Rows(-2, a.ndim)
    both = lambda b, i, j: d_out[at(b, i, j)] + d_out[at(b, j, i)]
    value = lambda b, i, k: alpha * Sum(lambda j: both(b, i, j) * a[at(b, j, k, transpose)])
    return at.output(value, "i", "k", transpose)


def _triangle(a, b, i, k, lower, transpose):
    row, column = (k, i) if transpose else (i, k)
    inside = position(row) >= position(column) if lower else position(row) <= position(column)
    return where(inside, a[(*b, row, column)], 0.0)


@op("_linalg_trmm")
def trmm(a, b, *, transpose=False, rightside=False, lower=True, alpha=1.0):
    tri = lambda n, i, k: _triangle(a, n, i, k, lower, transpose)
    if rightside:
        return lambda *v: alpha * Sum(lambda k: b[(*v[:-2], v[-2], k)] * tri(v[:-2], k, v[-1]))
    return lambda *v: alpha * Sum(lambda k: tri(v[:-2], v[-2], k) * b[(*v[:-2], k, v[-1])])


@op("_backward_linalg_trmm")
def backward_trmm(d_out, a, b, *, transpose=False, rightside=False, lower=True, alpha=1.0):
    tri = lambda n, i, k: _triangle(a, n, i, k, lower, transpose)
    # i and k are rows and columns of the transformed matrix, j is the free dimension
    at = lambda n, row, j: (*n, j, row) if rightside else (*n, row, j)
    one, other = (b, d_out) if rightside else (d_out, b)
    whole = lambda n, i, k: alpha * Sum(lambda j: one[at(n, i, j)] * other[at(n, k, j)])

    def d_a(n, row, column):
        inside = position(row) >= position(column) if lower else position(row) <= position(column)
        return where(inside, whole(n, *((column, row) if transpose else (row, column))), 0.0)

    if rightside:
        d_b = lambda n, j, i: alpha * Sum(lambda k: d_out[(*n, j, k)] * tri(n, i, k))
        names = "j i"
    else:
        d_b = lambda n, k, j: alpha * Sum(lambda i: tri(n, i, k) * d_out[(*n, i, j)])
        names = "k j"
    return (
        output("*b p q", lambda *v: d_a(v[:-2], v[-2], v[-1])),
        output(f"*b {names}", lambda *v: d_b(v[:-2], v[-2], v[-1])),
    )


class Systems:
    """Triangular systems of equations, one for each column of the second matrix (each row under `rightside`)."""

    def __init__(self, transpose, rightside, lower, alpha):
        self.is_transposed, self.rightside, self.alpha = transpose != rightside, rightside, alpha
        self.triangle = np.tril if lower else np.triu

    def solve(self, matrix, vector, is_adjoint=False):
        triangle = self.triangle(matrix)
        return self.alpha * np.linalg.solve(triangle.T if self.is_transposed != is_adjoint else triangle, vector)

    def d_matrix(self, matrix, d_solution, solution):
        """Return one solution's contribution to the gradient of the matrix."""
        gradient = -np.outer(self.solve(matrix, d_solution, is_adjoint=True), solution) / self.alpha
        return self.triangle(gradient.T if self.is_transposed else gradient)

    def vector(self, tensor, b, j):
        return tensor[(*b, j, slice(None)) if self.rightside else (*b, slice(None), j)]

    def output(self, body):
        if self.rightside:
            return output("*b j i", lambda *v: body(v[:-2], v[-1], v[-2], v))
        return output("*b i j", lambda *v: body(v[:-2], v[-2], v[-1], v))


@op("_linalg_trsm")
def trsm(a, b, *, transpose=False, rightside=False, lower=True, alpha=1.0):
    systems = Systems(transpose, rightside, lower, alpha)
    solve = Opaque(systems.solve, "solution")
    return systems.output(lambda n, i, j, cell: solve(_matrix(a, n), systems.vector(b, n, j))[i])


@op("_backward_linalg_trsm")
def backward_trsm(d_out, a, b, out, *, transpose=False, rightside=False, lower=True, alpha=1.0):
    systems = Systems(transpose, rightside, lower, alpha)
    solve = Opaque(lambda *given: systems.solve(*given, is_adjoint=True), "solution_of_transposed")
    d_matrix = Opaque(systems.d_matrix, "matrix_gradient")
    both = lambda n, j: (systems.vector(d_out, n, j), systems.vector(out, n, j))
    return (
        output("*b p q", lambda *v: Sum(lambda j: d_matrix(_matrix(a, v[:-2]), *both(v[:-2], j))[v[-2:]])),
        systems.output(lambda n, i, j, cell: solve(_matrix(a, n), both(n, j)[0])[i] + 0 * b[cell]),
    )
