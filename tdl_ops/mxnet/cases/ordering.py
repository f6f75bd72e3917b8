from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import rounded

CASES = [
    Case("argmax", {"axis": 1}, [(3, 5)], wrt=()),
    Case("argmax", {}, [(3, 5)], wrt=()),
    Case("argmin", {"axis": -2, "keepdims": True}, [(3, 5, 3)], wrt=()),
    Case("argmax_channel", {}, [(5, 3)], wrt=()),
    Case("argmax_channel", {}, [(5, 3, 4)], wrt=()),
    Case("sort", {"axis": 1}, [(3, 5)]),
    Case("sort", {"axis": 0, "is_ascend": False}, [rounded(3, 5)]),
    Case("sort", {"axis": None}, [(3, 5)], wrt=()),
    Case("argsort", {"axis": 1, "dtype": "float64"}, [rounded(3, 5)], wrt=()),
    Case("topk", {"axis": 1, "k": 2, "ret_typ": "both", "dtype": "float64"}, [(3, 5)]),
    Case("topk", {"axis": 1, "k": 3, "ret_typ": "value"}, [(3, 5, 2)]),
    Case("topk", {"axis": 1, "k": 0, "ret_typ": "indices"}, [(3, 5, 2)]),
    Case("topk", {"axis": 0, "k": 2, "ret_typ": "mask", "is_ascend": True}, [(3, 5, 2)]),
    Case("topk", {"axis": None, "k": 2, "ret_typ": "mask"}, [(3, 5, 2)]),
    Case("topk", {"axis": None, "k": 4, "ret_typ": "both"}, [(3, 5, 2)]),
]
