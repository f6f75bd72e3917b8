"""Numbers that MXNet computes in single precision from an operator's attributes."""

from __future__ import annotations

import numpy as np


def find_dividend(quotient, divisor, first):
    """The number of single precision that, divided by `divisor`, comes nearest to `quotient`, mostly equals it; `first` if that does."""
    near = quotient * divisor
    candidates = (first, near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf)))
    return min(candidates, key=lambda number: abs(number / divisor - quotient))
