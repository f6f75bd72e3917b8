from tdl_ops.mxnet.case import Case

CONVOLUTIONS = [
    ({"kernel": (3, 3), "num_filter": 5, "pad": (1, 1)}, [(3, 5, 7, 5), (5, 5, 3, 3), (5,)]),
    ({"kernel": (1, 1), "num_filter": 5, "no_bias": True}, [(3, 3, 5, 5), (5, 3, 1, 1)]),
    ({"kernel": (1, 1), "num_filter": 3, "stride": (2, 2), "no_bias": True}, [(3, 2, 7, 6), (3, 2, 1, 1)]),
    ({"kernel": (3, 2), "num_filter": 3, "stride": (2, 1), "pad": (2, 0)}, [(3, 3, 9, 5), (3, 3, 3, 2), (3,)]),
    ({"kernel": (3, 3), "num_filter": 3, "dilate": (2, 2), "pad": (2, 2)}, [(3, 2, 7, 7), (3, 2, 3, 3), (3,)]),
    ({"kernel": (3, 3), "num_filter": 6, "num_group": 3, "pad": (1, 1)}, [(3, 6, 5, 5), (6, 2, 3, 3), (6,)]),
    ({"kernel": (3, 3), "num_filter": 5, "num_group": 5, "no_bias": True}, [(3, 5, 5, 5), (5, 1, 3, 3)]),
    ({"kernel": 3, "num_filter": 5, "stride": 2, "pad": (1,)}, [(3, 5, 9), (5, 5, 3), (5,)]),
    ({"kernel": (2, 3, 2), "num_filter": 3, "pad": (0, 1, 1)}, [(2, 3, 4, 5, 4), (3, 3, 2, 3, 2), (3,)]),
]
GROUPED = {"kernel": (2, 3), "num_filter": 6, "num_group": 3, "stride": (2, 1), "no_bias": True}

CASES = [
    *(Case("Convolution", attributes, inputs) for attributes, inputs in CONVOLUTIONS),
    Case("Convolution_v1", *CONVOLUTIONS[0]),
    Case("Convolution_v1", GROUPED, [(3, 6, 5, 5), (6, 2, 2, 3)]),
]
