from tdl_ops.mxnet.case import Case

CASES = [
    Case("_tofu_divide_by_window", {"axis": axis, **layout, **window}, [shape], ())
    for axis, shape, layout in (
        (2, (2, 3, 7), {}),
        (2, (2, 3, 7, 4), {}),
        (3, (2, 3, 4, 7), {}),
        (4, (2, 3, 2, 2, 7), {}),
        (1, (2, 7, 3), {"layout": "NWC"}),
        (2, (2, 4, 7, 3), {"layout": "NHWC"}),
    )
    for window in (
        {"kernel": 3, "stride": 2, "pad": 1, "begin": 0, "end": 13},
        {"kernel": 4, "stride": 2, "pad": 2, "begin": -2, "end": 14},
        {"kernel": 3, "stride": 3, "pad": 0, "begin": 0, "end": 20},
    )
]
