from tdl_ops.mxnet.case import Case

CASES = [
    Case("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, [(3, 5, 3, 4)]),
    Case(
        "UpSampling",
        {"scale": 2, "sample_type": "nearest", "num_args": 3, "multi_input_mode": "concat"},
        [(3, 5, 4, 6), (3, 2, 2, 3), (3, 4, 8, 12)],
    ),
    Case(
        "UpSampling",
        {"scale": 1, "sample_type": "nearest", "num_args": 2, "multi_input_mode": "sum"},
        [(3, 5, 6, 9), (3, 5, 2, 3)],
    ),
    Case("Pad", {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 2, 1), "constant_value": 0.5}, [(3, 5, 3, 4)]),
    *(
        Case(
            "UpSampling",
            {"scale": scale, "sample_type": "bilinear", "num_args": 2, "num_filter": 5},
            [(3, 5, 3, 4), (5, 1, k, k)],
        )
        for scale, k in ((2, 4), (3, 5))
    ),
    *(
        Case("Pad", {"mode": mode, "pad_width": (0, 0, 0, 0, 1, 2, 2, 1)}, [(3, 5, 3, 4)])
        for mode in ("edge", "reflect")
    ),
]
