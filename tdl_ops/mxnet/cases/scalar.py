"""Element-wise operators of a tensor and a number."""

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import rounded, uniform

POSITIVE = uniform(0.3, 3, 5, 7)

CASES = [
    *(
        Case(f"_{name}_scalar", {"scalar": 2.0}, [POSITIVE])
        for name in [
            "plus",
            "minus",
            "rminus",
            "mul",
            "div",
            "rdiv",
            "mod",
            "rmod",
            "power",
            "rpower",
            "maximum",
            "minimum",
            "hypot",
        ]
    ),
    *(
        Case(f"_{name}_scalar", {"scalar": 1.0}, [rounded(5, 7)])
        for name in [
            "equal",
            "not_equal",
            "greater",
            "greater_equal",
            "lesser",
            "lesser_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
        ]
    ),
]
