"""Sorting and searching."""

from __future__ import annotations

from tofu.verify.case import Case

CASES = [
    Case("argmax", {"axis": 1}, [(3, 5)], wrt=()),
    Case("argmin", {"axis": -2, "keepdims": True}, [(3, 5, 3)], wrt=()),
    Case("sort", {"axis": 1}, [(3, 5)], wrt=()),
    Case("sort", {"axis": 0, "is_ascend": False}, [(3, 5)], wrt=()),
    Case("argsort", {"axis": 1, "dtype": "float64"}, [(3, 5)], wrt=()),
]
