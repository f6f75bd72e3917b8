"""Fused recurrent layers."""

from tdl_ops.mxnet.case import Case

# The parameters of one layer: 4 or 3 gates with weights for 4 inputs and 3 states and two biases each.
CASES = [
    Case(
        "RNN",
        {"mode": "lstm", "state_size": 3, "num_layers": 1, "state_outputs": True},
        [(4, 5, 4), (108,), (1, 5, 3), (1, 5, 3)],
    ),
    Case("RNN", {"mode": "gru", "state_size": 3, "num_layers": 1}, [(4, 5, 4), (81,), (1, 5, 3)]),
    Case(
        "RNN",
        {"mode": "rnn_tanh", "state_size": 3, "num_layers": 1, "state_outputs": True},
        [(4, 5, 4), (27,), (1, 5, 3)],
    ),
    Case(
        "RNN",
        {"mode": "gru", "state_size": 3, "num_layers": 2, "bidirectional": True, "state_outputs": True},
        [(4, 5, 4), (360,), (4, 5, 3)],
    ),
]
