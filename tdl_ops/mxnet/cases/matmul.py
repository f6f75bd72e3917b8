from itertools import product

from tdl_ops.mxnet.case import Case

FLAGS = {(a, b): {"transpose_a": a, "transpose_b": b} for a, b in product((False, True), repeat=2)}

CASES = [
    Case("FullyConnected", {"num_hidden": 5}, [(5, 7), (5, 7), (5,)]),
    Case("FullyConnected", {"num_hidden": 5, "no_bias": True}, [(5, 3, 7), (5, 21)]),
    Case("FullyConnected", {"num_hidden": 7}, [(5, 3, 2, 3), (7, 18), (7,)]),
    Case("FullyConnected", {"num_hidden": 5, "flatten": False}, [(5, 3, 7), (5, 7), (5,)]),
    Case("FullyConnected", {"num_hidden": 5, "flatten": False, "no_bias": True}, [(3, 7), (5, 7)]),
    Case("FullyConnected", {"num_hidden": 3}, [(5,), (3, 1), (3,)]),
    *(
        Case("dot", FLAGS[a, b], [(5, *rows) if a else (*rows, 5), (*columns, 5) if b else (5, *columns)])
        for a, b in FLAGS
        for rows, columns in (((3,), (7,)), ((2, 3), (7,)), ((), (3, 2)), ((3, 2), ()))
    ),
    Case("dot", {}, [(5,), (5,)]),
    *(Case("batch_dot", FLAGS[a, b], [(3, 5, 4) if a else (3, 4, 5), (3, 7, 5) if b else (3, 5, 7)]) for a, b in FLAGS),
]
