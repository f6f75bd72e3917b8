"""Compute special functions that NumPy lacks, in float64, for the interpreter of descriptions.

Some come from SciPy, which JAX needs too. SciPy is imported when such a function is first used.
"""

from importlib import import_module

import numpy as np

from tofu.tdl import elementwise


def _rank(x):
    """Return integers in the order of floating-point numbers: -0.0 before 0.0, with a place for NaN."""
    bits = np.asarray(x, np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _load(name):
    return getattr(import_module("scipy.special"), name)


def _igamma_grad_a(a, x):
    """Return the derivative by `a` of the regularized lower incomplete gamma function, as a series."""
    n = np.arange(200.0).reshape(-1, *(1,) * np.ndim(a + x))
    gammaln, psi = _load("gammaln"), _load("psi")
    summands = np.exp((a + n) * np.log(x) - x - gammaln(a + n + 1))
    return (summands * (np.log(x) - psi(a + n + 1))).sum(0)


is_before = elementwise("is_before", lambda x, y: _rank(x) < _rank(y))
is_not_after = elementwise("is_not_after", lambda x, y: _rank(x) <= _rank(y))
complex_of = elementwise("complex_of", lambda x, y: x + 1j * y)
igamma_grad_a = elementwise("igamma_grad_a", _igamma_grad_a)
erfc, erf_inv, digamma, i0e, i1e, igamma, igammac, polygamma, zeta, betainc = (
    elementwise(f"scipy_{name}", lambda *x, name=name: _load(name)(*x))
    for name in ["erfc", "erfinv", "psi", "i0e", "i1e", "gammainc", "gammaincc", "polygamma", "zeta", "betainc"]
)
NEXT_AFTER = {
    name: elementwise(f"next_after_{name}", lambda x, y, name=name: np.nextafter(x.astype(name), y.astype(name)))
    for name in ("float16", "float32", "float64")
}
