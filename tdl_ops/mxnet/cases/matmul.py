from tdl_ops.mxnet.case import Case

CASES = [
    Case("FullyConnected", {"num_hidden": 5}, [(5, 7), (5, 7), (5,)]),
    Case("FullyConnected", {"num_hidden": 5, "no_bias": True}, [(5, 3, 7), (5, 21)]),
    Case("FullyConnected", {"num_hidden": 7}, [(5, 3, 2, 3), (7, 18), (7,)]),
    Case("FullyConnected", {"num_hidden": 5, "flatten": False}, [(5, 3, 7), (5, 7), (5,)]),
    Case("FullyConnected", {"num_hidden": 5, "flatten": False, "no_bias": True}, [(3, 7), (5, 7)]),
    Case("FullyConnected", {"num_hidden": 3}, [(5,), (3, 1), (3,)]),
    *(
        Case(
            "dot",
            {"transpose_a": a, "transpose_b": b},
            [(5, *rows) if a else (*rows, 5), (*columns, 5) if b else (5, *columns)],
        )
        for a in (False, True)
        for b in (False, True)
        for rows, columns in (((3,), (7,)), ((2, 3), (7,)), ((), (3, 2)), ((3, 2), ()))
    ),
    Case("dot", {}, [(5,), (5,)]),
    *(
        Case(
            "batch_dot",
            {"transpose_a": a, "transpose_b": b},
            [(3, 5, 4) if a else (3, 4, 5), (3, 7, 5) if b else (3, 5, 7)],
        )
        for a in (False, True)
        for b in (False, True)
    ),
]
