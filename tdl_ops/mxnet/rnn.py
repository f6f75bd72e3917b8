"""The RNN operator for whole sequences, which can only be split by batch, `b`.

An LSTM has as many cells `c` as hidden states `h`, or more if the states are projected. All parameters are one vector.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, Sum, output

UNROLL = 'Have it run as its cells (unroll="cheaper"), or unroll those (cell.unroll): their products are split.'
recurrence = Opaque(name="recurrence")
recurrence_gradient = Opaque(name="recurrence_gradient")


def _samples(tensors, b):
    return [t[:, b, :] if t.ndim == 3 else t[:] for t in tensors]


def _states(mode, result, first):
    names = ("layer b h", "layer b c") if mode == "lstm" else ("layer b h",)
    return [output(n, lambda *cell, o=o: result(cell[1])[o, cell[0], cell[2]]) for o, n in enumerate(names, first)]


@op("RNN", advice=UNROLL)
def rnn(data, parameters, state, *more, mode, state_outputs=False):
    result = lambda b: recurrence(*_samples((data, parameters, state, *more), b))
    states = _states(mode, result, 1)
    return output("t b f", lambda t, b, f: result(b)[0, t, f]), *(states if state_outputs else ())


# MXNet's kernel passes gradients between layers in its requested outputs. If an output is missing, all are wrong.
@op("_backward_RNN", needs=dict.fromkeys(range(4), (0, 1, 2, 3)), advice=UNROLL)
def backward_rnn(*given, mode):
    result = lambda b: recurrence_gradient(*_samples(given, b))
    d_data = output("t b i", lambda t, b, i: result(b)[0, t, i])
    d_parameters = output("p", lambda p: Sum(lambda b: result(b)[1, p]))
    return d_data, d_parameters, *_states(mode, result, 2)
