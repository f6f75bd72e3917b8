"""What NumPy lacks and primitives compute: special functions, as the interpreter of descriptions needs them. They take float64."""

from __future__ import annotations

import math

import numpy as np

from tofu.tdl import elementwise


def _erf_inv(x):
    """The inverse of erf: a start that is right to 1e-3 (Winitzki), and three steps of Newton's method."""
    a = 0.147
    with np.errstate(all="ignore"):
        tail = np.log((1 - x) * (1 + x))
        middle = 2 / (np.pi * a) + tail / 2
        found = np.sign(x) * np.sqrt(np.sqrt(middle**2 - tail / a) - middle)
        for _ in range(3):
            found = found - (_erf_values(found) - x) * np.exp(found**2) * np.sqrt(np.pi) / 2
    return np.where(np.abs(x) < 1, found, np.where(np.abs(x) == 1, np.sign(x) * np.inf, np.nan))


def _digamma(x):
    """The derivative of the logarithm of gamma: recurrence up to 10, then the asymptotic series (Abramowitz 6.3.18)."""
    if x <= 0:
        return np.nan if x == np.floor(x) else _digamma(1 - x) - np.pi / np.tan(np.pi * x)
    shift = 0.0
    while x < 10:
        shift, x = shift - 1 / x, x + 1
    s = 1 / (x * x)
    return shift + np.log(x) - 1 / (2 * x) - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))


_erf_values = np.vectorize(math.erf, otypes=[float])
erfc = elementwise("erfc", np.vectorize(math.erfc, otypes=[float]))
erf_inv = elementwise("erf_inv", _erf_inv)
digamma = elementwise("jax_digamma", np.vectorize(_digamma, otypes=[float]))
NEXT_AFTER = {
    name: elementwise(f"next_after_{name}", lambda x, y, name=name: np.nextafter(x.astype(name), y.astype(name)))
    for name in ("float16", "float32", "float64")
}
