"""The fused recurrent operator: opaque but for its batch dimension `b`.

The cells `c` of an LSTM are as many as its hidden states `h`, or more where those are projected.
The parameters are one vector in a layout of MXNet's own, and time is sequential.
"""

from __future__ import annotations

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, Sum, output

UNROLL = 'Have it run as its cells (unroll="cheaper"), or unroll those (cell.unroll): their products are split.'
recurrence = Opaque(name="recurrence")
recurrence_gradient = Opaque(name="recurrence_gradient")


def _samples(tensors, b):
    """What one sample reads: the batch is the second dimension of all but the parameters."""
    return [t[:, b, :] if t.ndim == 3 else t[:] for t in tensors]


def _states(mode, result, first):
    """What is of the states' shapes, from the output `first` on."""
    names = ("layer b h", "layer b c") if mode == "lstm" else ("layer b h",)
    return [output(n, lambda *cell, o=o: result(cell[1])[o, cell[0], cell[2]]) for o, n in enumerate(names, first)]


@op("RNN", advice=UNROLL)
def rnn(data, parameters, state, *more, mode, state_outputs=False):
    result = lambda b: recurrence(*_samples((data, parameters, state, *more), b))
    states = _states(mode, result, 1)
    return output("t b f", lambda t, b, f: result(b)[0, t, f]), *(states if state_outputs else ())


# MXNet's kernel hands gradients from layer to layer in what it is asked for: without one of them, the others are wrong.
@op("_backward_RNN", needs=dict.fromkeys(range(4), (0, 1, 2, 3)), advice=UNROLL)
def backward_rnn(*given, mode):
    result = lambda b: recurrence_gradient(*_samples(given, b))
    d_data = output("t b i", lambda t, b, i: result(b)[0, t, i])
    d_parameters = output("p", lambda p: Sum(lambda b: result(b)[1, p]))
    return d_data, d_parameters, *_states(mode, result, 2)
