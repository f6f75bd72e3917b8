from tdl_ops.mxnet.case import SINGLE_PRECISION, Case

SLOPES = [((5, 3, 7), (3,)), ((5, 3), (1,)), ((5,), (5,)), ((5, 3), (5, 3)), ((5, 3, 7), (5, 1)), ((5, 3, 7), (1, 3))]

CASES = [
    *(Case("Activation", {"act_type": kind}, [(5, 7)]) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")),
    *(
        Case("LeakyReLU", {"act_type": kind}, [(5, 3, 7)], None, SINGLE_PRECISION)
        for kind in ("leaky", "elu", "selu", "gelu")
    ),
    Case("LeakyReLU", {"act_type": "leaky", "slope": 0.125}, [(5, 7)], None, SINGLE_PRECISION),
    *(Case("LeakyReLU", {"act_type": "prelu"}, [*shapes], None, SINGLE_PRECISION) for shapes in SLOPES),
]
