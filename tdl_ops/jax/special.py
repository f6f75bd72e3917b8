"""Compute special functions that NumPy lacks, in float64, for the interpreter of descriptions.

Some come from SciPy, which JAX needs too. SciPy is imported when such a function is first used.
"""

import math
from importlib import import_module

import numpy as np

from tofu.tdl import elementwise


def _erf_inv(x):
    """Return the inverse of erf, by Winitzki's approximation and three steps of Newton's method."""
    a = 0.147
    with np.errstate(all="ignore"):
        tail = np.log((1 - x) * (1 + x))
        middle = 2 / (np.pi * a) + tail / 2
        found = np.sign(x) * np.sqrt(np.sqrt(middle**2 - tail / a) - middle)
        for _ in range(3):
            found = found - (_erf_values(found) - x) * np.exp(found**2) * np.sqrt(np.pi) / 2
    return np.where(np.abs(x) < 1, found, np.where(np.abs(x) == 1, np.sign(x) * np.inf, np.nan))


def _digamma(x):
    """Return the derivative of log gamma (Abramowitz 6.3.18)."""
    if x <= 0:
        return np.nan if x == np.floor(x) else _digamma(1 - x) - np.pi / np.tan(np.pi * x)
    shift = 0.0
    while x < 10:
        shift, x = shift - 1 / x, x + 1
    s = 1 / (x * x)
    return shift + np.log(x) - 1 / (2 * x) - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))


def _rank(x):
    """Return integers in the order of floating-point numbers: -0.0 before 0.0, with a place for NaN."""
    bits = np.asarray(x, np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _load(name, package="scipy.special"):
    return getattr(import_module(package), name)


def _igamma_grad_a(a, x):
    """Return the derivative by `a` of the regularized lower incomplete gamma function, as a series."""
    n = np.arange(200.0).reshape(-1, *(1,) * np.ndim(a + x))
    gammaln, psi = _load("gammaln"), _load("psi")
    summands = np.exp((a + n) * np.log(x) - x - gammaln(a + n + 1))
    return (summands * (np.log(x) - psi(a + n + 1))).sum(0)


_erf_values = np.vectorize(math.erf, otypes=[float])
erfc = elementwise("erfc", np.vectorize(math.erfc, otypes=[float]))
erf_inv = elementwise("erf_inv", _erf_inv)
digamma = elementwise("jax_digamma", np.vectorize(_digamma, otypes=[float]))
is_before = elementwise("is_before", lambda x, y: _rank(x) < _rank(y))
is_not_after = elementwise("is_not_after", lambda x, y: _rank(x) <= _rank(y))
complex_of = elementwise("complex_of", lambda x, y: x + 1j * y)
igamma_grad_a = elementwise("igamma_grad_a", _igamma_grad_a)
i0e, i1e, igamma, igammac, polygamma, zeta, betainc = (
    elementwise(f"scipy_{name}", lambda *x, name=name: _load(name)(*x))
    for name in ("i0e", "i1e", "gammainc", "gammaincc", "polygamma", "zeta", "betainc")
)
NEXT_AFTER = {
    name: elementwise(f"next_after_{name}", lambda x, y, name=name: np.nextafter(x.astype(name), y.astype(name)))
    for name in ("float16", "float32", "float64")
}
