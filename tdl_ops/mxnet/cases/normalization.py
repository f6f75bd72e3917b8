from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import ones, uniform

FREE = {"fix_gamma": False}
GLOBAL = {"fix_gamma": False, "use_global_stats": True}

CASES = [
    *(
        Case("BatchNorm", attributes, [data, gamma, (channels,), (channels,), uniform(0.5, 2, channels)])
        for attributes, data, gamma, channels in (
            (FREE, (5, 3, 7), (3,), 3),
            ({}, (5, 3, 2, 3), ones(3), 3),
            ({**FREE, "axis": -1}, (5, 3), (3,), 3),
            (GLOBAL, (5, 3, 7), (3,), 3),
            ({**GLOBAL, "axis": 3}, (3, 2, 5, 4), (4,), 4),
        )
    ),
    Case("LayerNorm", {}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {"axis": 1}, [(5, 3, 7), (3,), (3,)]),
    Case("LayerNorm", {"output_mean_var": True}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {}, [(5,), (5,), (5,)]),
]
