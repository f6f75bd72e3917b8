from tdl_ops.mxnet.case import Case

MAPS = [(3, 2, 7, 6), (3, 2, 7, 6)]

CASES = [
    Case("Correlation", {"kernel_size": 1, "max_displacement": 1}, MAPS),
    Case("Correlation", {"kernel_size": 3, "max_displacement": 2, "stride2": 2, "pad_size": 3}, MAPS),
    Case("Correlation", {"max_displacement": 1, "stride1": 2, "pad_size": 1, "is_multiply": False}, MAPS),
]
