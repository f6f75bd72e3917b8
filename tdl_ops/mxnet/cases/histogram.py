from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed

CASES = [
    Case("_histogram", {"bin_cnt": 4, "range": (-1.0, 1.0)}, [(5, 7)], wrt=()),
    Case("_histogram", {}, [(3, 4, 5), Fixed((-1.0, -0.25, 0.5, 2.0))], wrt=()),
]
