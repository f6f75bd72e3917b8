from tdl_ops.mxnet.case import Case

STATE = {"state_size": 3, "num_layers": 1}
BOTH_WAYS = {"state_size": 3, "num_layers": 2, "bidirectional": True, "state_outputs": True}
# The parameters of one layer: 4 or 3 gates with weights for 4 inputs and 3 states and two biases each.
CASES = [
    Case("RNN", {"mode": "lstm", **STATE, "state_outputs": True}, [(4, 5, 4), (108,), (1, 5, 3), (1, 5, 3)]),
    Case("RNN", {"mode": "gru", **STATE}, [(4, 5, 4), (81,), (1, 5, 3)]),
    Case("RNN", {"mode": "rnn_tanh", **STATE, "state_outputs": True}, [(4, 5, 4), (27,), (1, 5, 3)]),
    Case("RNN", {"mode": "gru", **BOTH_WAYS}, [(4, 5, 4), (360,), (4, 5, 3)]),
]
