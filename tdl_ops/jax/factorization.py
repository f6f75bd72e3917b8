"""Describe factorizations of matrices, which are in the last two dimensions, and related primitives.

The factorizations are opaque: each result depends on the complete matrix. They can be split along other dimensions.
"""

from importlib import import_module

import numpy as np

from tdl_ops.jax import op
from tdl_ops.jax.operands import numbered
from tofu.tdl import Opaque, output

WHOLE = slice(None)


def describe_batches(name, *ranks, function=None):
    """Return the description of a JAX operation that treats each element of a batch separately.

    `ranks` has each operand's number of dimensions without the batch. `function(shapes, *operands)` returns all results
    for one element. Without `function`, the description cannot be executed.
    """

    def description(*operands, output_shapes):
        count = operands[0].ndim - ranks[0]
        shapes = [shape[count:] for shape in output_shapes]

        def result(n):
            compute = None if function is None else lambda *batch: function(shapes, *batch)[n]
            part = Opaque(compute, name)
            at = lambda i: (x[(*i[:count], *(WHOLE,) * rank)] for x, rank in zip(operands, ranks, strict=True))
            own = {f"r{n}_{d}": extent for d, extent in enumerate(shapes[n])}
            return output(f"{numbered('b', count)} {' '.join(own)}", lambda *i: part(*at(i))[i[count:]], own)

        return tuple(map(result, range(len(shapes))))

    return description


def _from_scipy(name):
    return getattr(import_module("scipy.linalg"), name)


def _find_permutation(pivots, size):
    order = np.arange(size)
    for row, other in enumerate(pivots.astype(int)):
        order[[row, other]] = order[[other, row]]
    return order


def _lu(shapes, matrix):
    factors, pivots = _from_scipy("lu_factor")(matrix)
    return factors, pivots, _find_permutation(pivots, len(matrix))


def _qr(shapes, matrix):
    mode = "full" if shapes[0][1] == len(matrix) else "economic"
    return _from_scipy("qr")(matrix, mode=mode, pivoting=len(shapes) == 3)


def _geqrf(shapes, matrix):
    reflectors, scales = np.linalg.qr(matrix, mode="raw")
    return reflectors.T, scales


def _multiply_reflectors(shapes, reflectors, scales):
    product = np.eye(*shapes[0])
    for n in reversed(range(len(scales))):
        vector = np.concatenate([np.zeros(n), [1.0], reflectors[n + 1 :, n]])
        product = product - scales[n] * np.outer(vector, vector.conj() @ product)
    return (product,)


def _update_cholesky(shapes, factor, vector):
    return (np.linalg.cholesky(factor.T @ factor + np.outer(vector, vector)).T,)


# Eigenvectors and singular vectors are only unique up to their sign, so shards are compared, but no numbers.
BATCHES = {
    "cholesky_update": ((2, 1), _update_cholesky),
    "eig": ((2,), None),
    "eigh": ((2,), None),
    "geqrf": ((2,), _geqrf),
    "hessenberg": ((2,), None),
    "householder_product": ((2, 1), _multiply_reflectors),
    "lu": ((2,), _lu),
    "lu_pivots_to_permutation": ((1,), lambda shapes, pivots: (_find_permutation(pivots, *shapes[0]),)),
    "qr": ((2,), _qr),
    "schur": ((2,), None),
    "svd": ((2,), None),
    "tridiagonal": ((2,), None),
}
for _name, (_ranks, _function) in BATCHES.items():
    op(_name, concrete=True)(describe_batches(_name, *_ranks, function=_function))


@op("cholesky")
def cholesky(operand, *, symmetrize_input=True):
    symmetric = lambda matrix: (matrix + matrix.conj().T) / 2 if symmetrize_input else matrix
    # On CPUs, the primitive does not change elements above the diagonal; jnp.linalg.cholesky clears them.
    whole = lambda matrix: np.linalg.cholesky(matrix) + np.triu(matrix, 1)
    factor = Opaque(lambda matrix: whole(symmetric(matrix)), "cholesky")
    return lambda *i: factor(operand[(*i[:-2], WHOLE, WHOLE)])[i[-2], i[-1]]


@op("triangular_solve")
def triangular_solve(a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    def solve(a, b):
        a = np.tril(a) if lower else np.triu(a)
        if unit_diagonal:
            a = a - np.diag(np.diag(a)) + np.eye(len(a))
        a = a.conj() if conjugate_a else a
        return np.linalg.solve(a.T if transpose_a == left_side else a, b)

    solved = Opaque(solve, "triangular_solve")
    matrix = lambda i: a[(*i[:-2], WHOLE, WHOLE)]
    if left_side:  # the equations are solved column by column, otherwise row by row
        return lambda *i: solved(matrix(i), b[(*i[:-2], WHOLE, i[-1])])[i[-2]]
    return lambda *i: solved(matrix(i), b[(*i[:-1], WHOLE)])[i[-1]]


@op("tridiagonal_solve")
def tridiagonal_solve(lower, diagonal, upper, b):
    whole = lambda below, on, above: np.diag(on) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
    solved = Opaque(lambda *x: np.linalg.solve(whole(*x[:3]), x[3]), "tridiagonal_solve")
    bands = lambda i: (x[(*i[:-2], WHOLE)] for x in (lower, diagonal, upper))
    return lambda *i: solved(*bands(i), b[(*i[:-2], WHOLE, i[-1])])[i[-2]]


@op("ormqr", concrete=True)
def ormqr(reflectors, scales, c, *, left, transpose):

    def multiply(reflectors, scales, vector):
        size = len(vector)
        (product,) = _multiply_reflectors([(size, size)], reflectors, scales)
        product = product.conj().T if transpose else product
        return product @ vector if left else vector @ product

    multiplied = Opaque(multiply, "ormqr")
    matrix = lambda i: (reflectors[(*i[:-2], WHOLE, WHOLE)], scales[(*i[:-2], WHOLE)])
    if left:
        return lambda *i: multiplied(*matrix(i), c[(*i[:-2], WHOLE, i[-1])])[i[-2]]
    return lambda *i: multiplied(*matrix(i), c[(*i[:-1], WHOLE)])[i[-1]]


FOURIER = {
    "FFT": lambda x, lengths: np.fft.fftn(x),
    "IFFT": lambda x, lengths: np.fft.ifftn(x),
    "RFFT": lambda x, lengths: np.fft.rfftn(x),
    "IRFFT": lambda x, lengths: np.fft.irfftn(x, lengths, range(len(lengths))),
}


@op("fft", concrete=True)
def fft(x, *, output_shapes, fft_type, fft_lengths):
    transform = lambda shapes, x: (FOURIER[fft_type](x, fft_lengths),)
    return describe_batches("fft", len(fft_lengths), function=transform)(x, output_shapes=output_shapes)
