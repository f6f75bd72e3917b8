"""CTCLoss, with and without lengths."""

from __future__ import annotations

from dataclasses import replace

from tofu.verify.case import Case, Numbers, labels, single


def positions(low: int, high: int, *shape: int) -> Numbers:
    """Whole numbers from low to below an extent."""
    return replace(labels(high, *shape), low=low, dtype="float32")


# Steps, batch and classes; labels of at most four classes.
FIRST, LABELS = single(7, 3, 5), positions(1, 5, 3, 4)
LENGTHS = [positions(4, 7, 3), positions(1, 4, 3)]

CASES = [
    Case("CTCLoss", {}, [FIRST, LABELS]),
    Case("CTCLoss", {"use_data_lengths": True, "use_label_lengths": True}, [FIRST, LABELS, *LENGTHS]),
]
