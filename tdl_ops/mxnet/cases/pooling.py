from tdl_ops.mxnet.case import Case

AVERAGE = {"pool_type": "avg", "count_include_pad": False}
POOLINGS = [
    ({"kernel": (2, 2), "stride": (2, 2), "pool_type": "max"}, (3, 5, 6, 6)),
    ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}, (3, 5, 7, 7)),
    ({"kernel": (3,), "stride": (2,), "pool_type": "max", "pooling_convention": "full"}, (3, 5, 8)),
    ({"kernel": (2, 2, 2), "stride": (2, 2, 2), "pool_type": "max"}, (2, 3, 4, 4, 4)),
    ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg"}, (3, 5, 7, 7)),
    ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), **AVERAGE}, (3, 5, 7, 7)),
    ({"kernel": (2, 3), "stride": (1, 2), **AVERAGE}, (3, 5, 7, 7)),
    ({"kernel": (3, 3), "stride": (2, 2), "pool_type": "avg", "pooling_convention": "full"}, (3, 5, 8, 8)),
    ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "sum"}, (3, 5, 7, 7)),
    *(
        ({"kernel": (2, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "lp", "p_value": p}, (3, 5, 6, 7))
        for p in (1, 2, 3)
    ),
    *(({"global_pool": True, "pool_type": kind}, (3, 5, 4, 5)) for kind in ("max", "avg", "sum")),
    ({"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1), "pool_type": "max", "layout": "NHWC"}, (3, 7, 6, 5)),
    ({"kernel": (3,), "stride": (2,), "pad": (1,), **AVERAGE, "layout": "NWC"}, (3, 7, 5)),
    *(({"global_pool": True, "pool_type": kind, "layout": "NDHWC"}, (2, 3, 4, 3, 5)) for kind in ("max", "avg")),
]

CASES = [Case("Pooling", attributes, [shape]) for attributes, shape in POOLINGS]
