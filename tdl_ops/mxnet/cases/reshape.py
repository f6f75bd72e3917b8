from tdl_ops.mxnet.case import Case

CASES = [
    Case("Flatten", {}, [(5, 3, 2, 2)]),
    Case("Flatten", {}, [(5, 3)]),
    Case("Reshape", {"shape": (-1, 6)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (0, -1)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (5, 2, 6)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (10, 3)}, [(5, 6)]),
    Case("Reshape", {"shape": (0, 2, 3)}, [(5, 6)]),
    Case("Reshape", {"shape": (-3, 0)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (-1, 0), "reverse": True}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (0, 4, 6, 0)}, [(3, 6, 4, 7)]),
    Case("expand_dims", {"axis": 1}, [(5, 3)]),
    Case("squeeze", {"axis": 1}, [(5, 1, 3)]),
    Case("squeeze", {}, [(3, 1, 5, 1)]),
    Case("_np_squeeze", {}, [(3, 1, 5, 1)]),
    Case("reshape_like", {}, [(5, 6), (5, 3, 2)]),
    Case("reshape_like", {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}, [(15, 7), (5, 3, 4)]),
    Case("reshape_like", {"lhs_begin": 0, "lhs_end": -1, "rhs_begin": 1, "rhs_end": 2}, [(5, 3, 7), (4, 15)]),
    Case("reshape_like", {"lhs_begin": -2, "rhs_begin": -2}, [(5, 6, 4), (7, 4, 6)]),
]
