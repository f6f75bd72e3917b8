"""Compute the speed of kernels from measurements, by least squares. No rate can be negative.

The squared error of a kernel is divided by its seconds, so that both long and short kernels count.
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

OUTLIER = 4.0  # a sample that is off by this factor
Floats = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """One measurement of a kernel, or of a fetch (a copy from other workers).

    Attributes
    ----------
    kind
        The kind of the kernel (`tofu.simulation.kernels.name_kind`).
    contracted
        For a kernel, operations in contractions such as matrix products. For a fetch, bytes of the partial results that
        it adds.
    other
        For a kernel, other operations. For a fetch, number of contiguous blocks that it reads.
    size
        Bytes that are read and written.
    """

    kind: str
    contracted: int
    other: int
    size: int
    seconds: float


def fit_kernels(samples: Iterable[Sample], cache: int) -> Mapping[str, KernelRates]:
    """Compute how long each kind of kernel takes per call, operation and byte, from measured samples.

    `cache` is the size of a processor's cache in bytes.

    >>> made = [Sample("add", 0, n, 12 * n, 1e-6 + 12e-9 * n) for n in (10, 1000, 5000)]
    >>> fit_kernels(made, 1 << 20)["add"].error < 1e-6
    True
    """
    samples_by_kind: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        samples_by_kind[sample.kind].append(sample)
    return {kind: fit(samples_of_kind, cache) for kind, samples_of_kind in sorted(samples_by_kind.items())}


def fit(samples: Sequence[Sample], cache: int) -> KernelRates:
    """Compute the rates that best explain the samples of one kind of kernel. Outliers are ignored."""
    features = np.array([[1, *sample[1:4], max(0, sample.size - cache)] for sample in samples], np.float64)
    seconds = np.array([max(sample.seconds, 1e-7) for sample in samples])
    rates = _solve_without_negatives(features, seconds)
    is_near = np.abs(np.log(np.maximum(features @ rates, 1e-9) / seconds)) < np.log(OUTLIER)
    if 2 * is_near.sum() > len(seconds):
        features, seconds = features[is_near], seconds[is_near]
        rates = _solve_without_negatives(features, seconds)
    errors = np.abs(features @ rates / seconds - 1)
    call, contracted, other, byte, far_byte = rates.tolist()
    return KernelRates(call, contracted, other, byte, far_byte, round(float(median(errors.tolist())), 4))


def _solve_without_negatives(features: Floats, seconds: Floats) -> Floats:
    weights = np.sqrt(seconds)
    features, targets = features / weights[:, None], seconds / weights
    scale = np.maximum(np.abs(features).max(axis=0), 1e-300)
    feature_count, best_rates, least_error = features.shape[1], np.zeros(features.shape[1]), float("inf")
    for size in range(1, feature_count + 1):
        for chosen_columns in combinations(range(feature_count), size):
            columns = list(chosen_columns)
            solution, *_ = np.linalg.lstsq(features[:, columns] / scale[columns], targets, rcond=None)
            error = float(np.square(features[:, columns] / scale[columns] @ solution - targets).sum())
            if (solution >= 0).all() and error < least_error * (1 - 1e-9):
                best_rates, least_error = np.zeros(feature_count), error
                best_rates[columns] = solution / scale[columns]
    return best_rates
