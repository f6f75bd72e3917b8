from tdl_ops.mxnet.case import Case

CASES = [
    Case("transpose", {}, [(5, 3, 7)]),
    Case("transpose", {"axes": (1, 2, 0)}, [(5, 3, 7)]),
    Case("_np_transpose", {"axes": (-1, 0, -2)}, [(5, 3, 7)]),
    Case("SwapAxis", {"dim1": 0, "dim2": 2}, [(5, 3, 4)]),
    Case("Concat", {"num_args": 3, "dim": 1}, [(5, 3, 4), (5, 1, 4), (5, 2, 4)]),
    Case("_rnn_param_concat", {"num_args": 3, "dim": 0}, [(6,), (4,), (5,)]),
    Case("SliceChannel", {"num_outputs": 3}, [(5, 6, 3)]),
    Case("SliceChannel", {"num_outputs": 3, "axis": -1, "squeeze_axis": True}, [(5, 4, 3)]),
    Case("slice_axis", {"axis": 1, "begin": -3, "end": None}, [(5, 4, 3)]),
    Case("stack", {"num_args": 2, "axis": 1}, [(5, 3), (5, 3)]),
]
