from tdl_ops.mxnet.case import Case

CASES = [
    Case("slice", {"begin": (1, None, 0), "end": (4, None, 3), "step": (2, 1, 1)}, [(5, 3, 7)]),
    Case("slice", {"begin": (None, 1), "end": (None, 3)}, [(5, 4)]),
    Case("slice", {"begin": (4,), "end": (0,), "step": (-2,)}, [(5, 4)]),
    Case("slice", {"begin": 1, "end": (None,), "step": None}, [(5, 4)]),
    Case("reverse", {"axis": 1}, [(5, 3)]),
    Case("repeat", {"repeats": 3, "axis": 1}, [(5, 3, 2)]),
    Case("repeat", {"repeats": 2, "axis": -1}, [(5, 3)]),
    Case("repeat", {"repeats": 3}, [(5, 3, 2)]),
    Case("repeat", {"repeats": 3}, [(5,)]),
    Case("tile", {"reps": (1, 3)}, [(5, 3)]),
    Case("tile", {"reps": (3,)}, [(5, 3)]),
    Case("tile", {"reps": 3}, [(5, 3)]),
    Case("tile", {"reps": (3, 1, 2)}, [(5, 4)]),
    Case("tile", {"reps": (2, 3)}, [(5,)]),
]
