"""Verify that descriptions of operators agree with MXNet's own kernels, in float64 on small inputs.

A *description* is a formula for an operator's outputs. A *strategy* is an axis along which the operator can be split.
An operator counts as verified only if

- its description, evaluated with NumPy, gives the kernel's numbers, and
- for each strategy, the kernel's results on all parts form its result on the whole operator.

The package also reports splits that work but that Tofu did not find.
"""

from tdl_ops.mxnet.case import Case
from tofu.mxnet.verify.cases import verify_case
from tofu.mxnet.verify.missing import find_missing
from tofu.mxnet.verify.operators import verify_operator
from tofu.verification.numbers import Fixed, Numbers, half, labels, lengths, ones, rounded, single, uniform, whole

__all__ = [
    "Case",
    "Fixed",
    "Numbers",
    "find_missing",
    "half",
    "labels",
    "lengths",
    "ones",
    "rounded",
    "single",
    "uniform",
    "verify_case",
    "verify_operator",
    "whole",
]
