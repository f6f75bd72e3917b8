from tdl_ops.mxnet.case import Case

WINDOW = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}

CASES = [
    Case("im2col", {"kernel": (3, 3)}, [(3, 2, 5, 5)]),
    Case("im2col", WINDOW, [(3, 2, 5, 4)]),
    Case("im2col", {"kernel": (2, 2), "dilate": (2, 1)}, [(3, 2, 5, 4)]),
    Case("col2im", {**WINDOW, "output_size": (5, 4)}, [(3, 12, 9)]),
    # One channel: the window's elements are outermost in a column.
    Case("col2im", {"kernel": (3, 2), "output_size": (5, 4)}, [(3, 6, 9)]),
    Case("im2col", {"kernel": (3, 2)}, [(3, 1, 5, 4)]),
]
