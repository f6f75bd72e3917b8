from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import labels

CASES = [
    Case("Embedding", {"input_dim": 7, "output_dim": 5}, [labels(7, 5, 3), (7, 5)], wrt=(1,)),
    Case("take", {}, [(7, 5), labels(7, 3, 5)]),
    Case("take", {"axis": 1, "mode": "wrap"}, [(5, 7, 3), labels(9, 5)], wrt=(0,)),
    Case("pick", {}, [(5, 7), labels(7, 5)], wrt=(0,)),
    Case("pick", {"axis": 1, "keepdims": True}, [(5, 7, 3), labels(7, 5, 1, 3)], wrt=(0,)),
    Case("one_hot", {"depth": 7}, [labels(7, 5)]),
]
