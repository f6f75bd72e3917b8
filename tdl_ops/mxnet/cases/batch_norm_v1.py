from dataclasses import replace

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import ones, single, uniform

INPUTS = [single(4, 5, 3, 2), single(5), single(5), single(5), replace(uniform(0.5, 2, 5), dtype="float32")]
FIXED = [INPUTS[0], replace(ones(5), dtype="float32"), *INPUTS[2:]]

CASES = [
    *(Case("BatchNorm_v1", {"fix_gamma": False, "use_global_stats": given}, INPUTS) for given in (False, True)),
    Case("BatchNorm_v1", {}, FIXED),
    Case("BatchNorm_v1", {"use_global_stats": True}, [single(4, 5), *FIXED[1:]]),
]
