import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both, complexes, each, pair, unless_lacking
from tofu.verification.numbers import Fixed


def make_positive(x):
    return x @ x.mT + 4 * jnp.eye(x.shape[-1])


def make_lower(x):
    return jnp.tril(x) + 3 * jnp.eye(x.shape[-1])


def solve_lower(a, b, **options):
    return lax.linalg.triangular_solve(make_lower(a), b, lower=True, **options)


def solve_transposed(a, b):
    return solve_triangular(make_lower(a).T, b, trans=1, unit_diagonal=True)


def solve_adjoint(a, b):
    return solve_lower(pair(a), pair(b), left_side=True, transpose_a=True, conjugate_a=True)


def solve_bands(below, on, above, b):
    return lax.linalg.tridiagonal_solve(below, on + 5, above, b)


def update_factor(x, v):
    return lax.linalg.cholesky_update(jnp.linalg.cholesky(make_positive(x)).T, v)


def reflect(reflectors, scales):
    return lax.linalg.householder_product(reflectors.mT, scales)


def reflect_sides(reflectors, scales, left, right):
    given = reflectors.mT, scales
    for transpose in (False, True):
        left = lax.linalg.ormqr(*given, left, transpose=transpose)
        right = lax.linalg.ormqr(*given, right, left=False, transpose=transpose)
    return left, right


PIVOTS = ((1, 3, 2, 3), (0, 1, 3, 3), (3, 3, 3, 3), (2, 1, 2, 3))
CASES = [
    PrimitiveCase("Cholesky factors", both(lambda x: jnp.linalg.cholesky(make_positive(x))), (4, 3, 3)),
    PrimitiveCase("triangular", both(lambda a, b: solve_triangular(make_lower(a), b, lower=True)), (3, 3), (3, 4)),
    PrimitiveCase("triangular, in batches", jax.vmap(both(solve_transposed)), (4, 3, 3), (4, 3, 2)),
    PrimitiveCase("triangular from the right", jax.vmap(solve_lower), (4, 3, 3), (4, 2, 3)),
    PrimitiveCase("triangular of complex numbers", solve_adjoint, complexes(4, 3, 3), complexes(4, 3, 2)),
    PrimitiveCase("LU factors", lax.linalg.lu, (4, 3, 3)),
    PrimitiveCase(
        "permutations", lambda pivots: lax.linalg.lu_pivots_to_permutation(pivots, 4), Fixed(PIVOTS, "int32")
    ),
    PrimitiveCase("solve", jax.vmap(both(jnp.linalg.solve)), (4, 3, 3), (4, 3, 2)),
    PrimitiveCase("determinant, inverse", each(both(jnp.linalg.det), both(jnp.linalg.inv)), (4, 3, 3)),
    PrimitiveCase("QR factors", both(jnp.linalg.qr), (4, 5, 3)),
    PrimitiveCase("complete QR factors", lambda x: jnp.linalg.qr(x, mode="complete"), (4, 5, 3)),
    PrimitiveCase("QR factors with pivots", lambda x: lax.linalg.qr(x, pivoting=True, full_matrices=False), (4, 5, 3)),
    PrimitiveCase("reflectors", lambda x: reflect(*jnp.linalg.qr(x, mode="raw")), (4, 5, 3)),
    *unless_lacking(
        "ormqr",
        PrimitiveCase(
            "matrices times reflectors",
            lambda x, left, right: reflect_sides(*jnp.linalg.qr(x, mode="raw"), left, right),
            (4, 5, 3),
            (4, 5, 2),
            (4, 2, 5),
        ),
        PrimitiveCase(
            "complex matrices times reflectors",
            lambda x, left, right: reflect_sides(*jnp.linalg.qr(pair(x), mode="raw"), pair(left), pair(right)),
            complexes(4, 5, 3),
            complexes(4, 5, 2),
            complexes(4, 2, 5),
        ),
    ),
    PrimitiveCase("eigenvalues", both(lambda x: jnp.linalg.eigh(x + x.mT)), (4, 3, 3)),
    PrimitiveCase("eigenvalues of any matrix", lambda x: jnp.linalg.eig(x), (4, 3, 3)),
    PrimitiveCase("singular values", both(lambda x: jnp.linalg.svd(x, full_matrices=False)), (4, 5, 3)),
    PrimitiveCase("singular values alone", both(lambda x: jnp.linalg.norm(x, "nuc", axis=(1, 2))), (4, 5, 3)),
    PrimitiveCase("Schur form", lax.linalg.schur, (4, 3, 3)),
    PrimitiveCase("Hessenberg form", lax.linalg.hessenberg, (4, 4, 4)),
    PrimitiveCase("tridiagonal form", lambda x: lax.linalg.tridiagonal(x + x.mT), (4, 4, 4)),
    PrimitiveCase("tridiagonal systems", solve_bands, (4, 5), (4, 5), (4, 5), (4, 5, 3)),
    PrimitiveCase("update of Cholesky factors", update_factor, (3, 3), (3,)),
    PrimitiveCase("Fourier transforms", both(lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2)), (4, 6)),
    PrimitiveCase(
        "Fourier transforms in two dimensions", lambda x: jnp.fft.ifft2(jnp.fft.fft2(pair(x)) + 1), complexes(4, 5, 6)
    ),
]
