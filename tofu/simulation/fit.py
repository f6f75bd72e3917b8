"""Kernels that were measured, as rates, by least squares, none of them negative.

The square of an error counts in units of the seconds that the kernel took, between that of seconds, which would fit the longest alone,
and that of relative errors, which would fit the many that are over at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tofu.simulation.kernels import KernelRates

OUTLIER = 4.0
Floats = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """One kernel: its kind, contracted operations (of a fetch, bytes that it adds to others), other operations (of a fetch, runs of cells),
    bytes, and the seconds that it took.
    """

    kind: str
    contracted: int
    other: int
    size: int
    seconds: float


def fit_kernels(samples: Iterable[Sample], cache: int) -> Mapping[str, KernelRates]:
    """The rates of each kind. `cache`: bytes that lie near a processor.

    >>> made = [Sample("add", 0, n, 12 * n, 1e-6 + 12e-9 * n) for n in (10, 1000, 5000)]
    >>> fit_kernels(made, 1 << 20)["add"].error < 1e-6
    True
    """
    by_kind: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_kind[sample.kind].append(sample)
    return {kind: fit(own, cache) for kind, own in sorted(by_kind.items())}


def fit(samples: Sequence[Sample], cache: int) -> KernelRates:
    """The rates that come closest to the samples of one kind, without those that take several times as long as the others: a kernel of
    another kind, for odd sizes or numbers near zero.
    """
    features = np.array([[1, *one[1:4], max(0, one.size - cache)] for one in samples], np.float64)
    seconds = np.array([max(one.seconds, 1e-7) for one in samples])
    rates = _solve(features, seconds)
    near = np.abs(np.log(np.maximum(features @ rates, 1e-9) / seconds)) < np.log(OUTLIER)
    if 2 * near.sum() > len(seconds):
        features, seconds = features[near], seconds[near]
        rates = _solve(features, seconds)
    errors = np.abs(features @ rates / seconds - 1)
    call, contracted, other, byte, far_byte = rates.tolist()
    return KernelRates(call, contracted, other, byte, far_byte, round(float(median(errors.tolist())), 4))


def _solve(features: Floats, seconds: Floats) -> Floats:
    """The least squares solution without negative numbers: the best of those with some of them zero."""
    weights = np.sqrt(seconds)
    features, wanted = features / weights[:, None], seconds / weights
    scale = np.maximum(np.abs(features).max(axis=0), 1e-300)
    count, best, least = features.shape[1], np.zeros(features.shape[1]), float("inf")
    for size in range(1, count + 1):
        for some in combinations(range(count), size):
            columns = list(some)
            found, *_ = np.linalg.lstsq(features[:, columns] / scale[columns], wanted, rcond=None)
            error = float(np.square(features[:, columns] / scale[columns] @ found - wanted).sum())
            if (found >= 0).all() and error < least * (1 - 1e-9):
                best, least = np.zeros(count), error
                best[columns] = found / scale[columns]
    return best
