"""Verify that descriptions of operators agree with MXNet's own kernels, in float64 on small inputs.

A *description* is a formula for an operator's outputs. A *strategy* is an axis along which the operator can be split.
An operator counts as verified only if

- its description, evaluated with NumPy, gives the kernel's numbers, and
- for each of its strategies, running the kernel on every part gives the same result as running it once.

The package also reports splits that work but that Tofu did not find.
"""

from tdl_ops.mxnet.case import Case
from tofu.mxnet.verify.cases import load_cases, verify_case
from tofu.mxnet.verify.missing import find_missing
from tofu.mxnet.verify.operators import verify_operator
from tofu.mxnet.verify.sandbox import Sandbox
from tofu.mxnet.verify.trials import Failure, Trials, try_variants
from tofu.verification.missing import Missing
from tofu.verification.numbers import Fixed, Numbers, half, labels, lengths, ones, rounded, single, uniform, whole
from tofu.verification.report import TOLERANCE, NodeReport, Report, StrategyReport

__all__ = [
    "TOLERANCE",
    "Case",
    "Failure",
    "Fixed",
    "Missing",
    "NodeReport",
    "Numbers",
    "Report",
    "Sandbox",
    "StrategyReport",
    "Trials",
    "find_missing",
    "half",
    "labels",
    "lengths",
    "load_cases",
    "ones",
    "rounded",
    "single",
    "try_variants",
    "uniform",
    "verify_case",
    "verify_operator",
    "whole",
]
