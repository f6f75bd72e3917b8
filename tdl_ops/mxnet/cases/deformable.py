"""Deformable convolutions; places between cells, beyond the border, and none at all."""

from __future__ import annotations

from tofu.mxnet.verify.case import Case
from tofu.verification.numbers import uniform

CASES = [
    Case(
        "_contrib_DeformableConvolution",
        {"kernel": (3, 3), "num_filter": 5, "pad": (1, 1)},
        [(4, 2, 6, 7), uniform(-2, 2, 4, 18, 6, 7), (5, 2, 3, 3), (5,)],
    ),
    Case(
        "_contrib_DeformableConvolution",
        {"kernel": (3, 2), "num_filter": 7, "stride": (2, 1), "dilate": (1, 2), "no_bias": True},
        [(5, 4, 9, 8), uniform(-1, 1, 5, 12, 4, 6), (7, 4, 3, 2)],
    ),
]
