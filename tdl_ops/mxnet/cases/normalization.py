from dataclasses import replace

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import ones, single, uniform

FREE = {"fix_gamma": False}
GLOBAL = {"fix_gamma": False, "use_global_stats": True}
SINGLE = [single(4, 5, 3, 2), single(5), single(5), single(5), replace(uniform(0.5, 2, 5), dtype="float32")]
FIXED = [SINGLE[0], replace(ones(5), dtype="float32"), *SINGLE[2:]]

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
    *(Case("BatchNorm_v1", attributes, SINGLE) for attributes in (FREE, GLOBAL)),
    Case("BatchNorm_v1", {}, FIXED),
    Case("BatchNorm_v1", {"use_global_stats": True}, [single(4, 5), *FIXED[1:]]),
    Case("LayerNorm", {}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {"axis": 1}, [(5, 3, 7), (3,), (3,)]),
    Case("LayerNorm", {"output_mean_var": True}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {}, [(5,), (5,), (5,)]),
]
