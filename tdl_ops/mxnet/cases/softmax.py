"""Softmax and its relatives."""

from __future__ import annotations

from tofu.mxnet.verify.case import Case
from tofu.verification.numbers import single

CASES = [
    *(
        Case(op, attributes, [(5, 3, 7)])
        for op in ("softmax", "softmin", "log_softmax")
        for attributes in ({}, {"axis": 1}, {"temperature": 2.0})
    ),
    *(Case("SoftmaxActivation", {"mode": mode}, [single(5, 3, 7)]) for mode in ("instance", "channel")),
    Case("_contrib_div_sqrt_dim", {}, [(5, 7)]),
]
