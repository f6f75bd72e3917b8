from tdl_ops.mxnet.case import SINGLE_PRECISION, Case

WINDOW = {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 0)}
FULL = {"kernel": (3, 3), "stride": (2, 2), "pooling_convention": "full"}

CASES = [
    Case("Pooling_v1", {**attributes, "pool_type": kind}, [(3, 5, 7, 6)], None, SINGLE_PRECISION)
    for attributes in (WINDOW, FULL, {"kernel": (3, 3), "global_pool": True})
    for kind in ("max", "avg", "sum")
]
