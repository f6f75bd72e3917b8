from tdl_ops.mxnet.case import Case

CASES = [Case("_np_cumsum", {"axis": axis}, [(5, 3, 7)]) for axis in (0, 1, 2, None)]
