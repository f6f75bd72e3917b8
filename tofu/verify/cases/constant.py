"""Tensors of one number."""

from __future__ import annotations

from tofu.verify.case import Case

CASES = [
    Case("_zeros", {"shape": (5, 7), "dtype": "float64"}, [], wrt=()),
    Case("_ones", {"shape": (5, 7), "dtype": "float64"}, [], wrt=()),
    Case("_full", {"shape": (5, 7), "value": 3.0, "dtype": "float64"}, [], wrt=()),
]
