"""Losses that know their own gradient."""

from __future__ import annotations

from tofu.verify.case import SINGLE_PRECISION, Case

CASES = [
    *(
        Case(f"{name}RegressionOutput", {"grad_scale": 2.0}, [(5, 7, 3), (5, 7, 3)], None, SINGLE_PRECISION)
        for name in ("Linear", "Logistic", "MAE")
    ),
    Case("LinearRegressionOutput", {}, [(5, 1), (5,)]),
    Case("MakeLoss", {"grad_scale": 2.0}, [(5, 7)]),
    Case("MakeLoss", {"normalization": "batch"}, [(5, 7)], None, SINGLE_PRECISION),
]
