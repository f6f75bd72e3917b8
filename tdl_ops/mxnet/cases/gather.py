from dataclasses import replace

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed, labels

CASES = [
    Case("batch_take", {}, [(5, 4), replace(labels(4, 5), dtype="int32")], wrt=()),
    Case("gather_nd", {}, [(4, 5, 3), labels(4, 2, 6)], wrt=(0,)),
    Case("gather_nd", {}, [(4, 5), labels(4, 2, 3, 2)], wrt=(0,)),
    Case("scatter_nd", {"shape": (4, 5, 3)}, [(4, 3), Fixed(((0, 3, 1, 2), (4, 2, 2, 0)))], wrt=(0,)),
    Case("scatter_nd", {"shape": (6,)}, [(4,), Fixed(((0, 3, 1, 2),))], wrt=(0,)),
    Case("_ravel_multi_index", {"shape": (4, 5, 6)}, [labels(4, 3, 6)], wrt=()),
    Case("_unravel_index", {"shape": (4, 5)}, [labels(20, 6)], wrt=()),
]
