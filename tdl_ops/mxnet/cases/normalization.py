"""Normalization with learned factors."""

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import ones, uniform

CASES = [
    Case("BatchNorm", {"fix_gamma": False}, [(5, 3, 7), (3,), (3,), (3,), uniform(0.5, 2, 3)]),
    Case("BatchNorm", {}, [(5, 3, 2, 3), ones(3), (3,), (3,), uniform(0.5, 2, 3)]),
    Case("BatchNorm", {"fix_gamma": False, "axis": -1}, [(5, 3), (3,), (3,), (3,), uniform(0.5, 2, 3)]),
    Case(
        "BatchNorm", {"fix_gamma": False, "use_global_stats": True}, [(5, 3, 7), (3,), (3,), (3,), uniform(0.5, 2, 3)]
    ),
    Case(
        "BatchNorm",
        {"fix_gamma": False, "use_global_stats": True, "axis": 3},
        [(3, 2, 5, 4), (4,), (4,), (4,), uniform(0.5, 2, 4)],
    ),
    Case("LayerNorm", {}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {"axis": 1}, [(5, 3, 7), (3,), (3,)]),
    Case("LayerNorm", {"output_mean_var": True}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {}, [(5,), (5,), (5,)]),
]
