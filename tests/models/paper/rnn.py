"""Recurrent nets, unrolled over 20 time steps: stacks of LSTM layers (section 7.1 of the paper)."""

from __future__ import annotations

import mxnet as mx

from tests.models.paper.model import PaperModel


def rnn(
    layers: int, hidden: int, batch: int = 128, *, time_steps: int = 20, features: int = 512, classes: int = 1000
) -> PaperModel:
    """Return RNN-`layers`-`hidden`. Shared weights classify the output of the last layer at every time step."""
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(layers):
        stack.add(mx.rnn.LSTMCell(hidden, prefix=f"lstm{layer}_"))
    steps = [mx.sym.Variable(f"data{t}") for t in range(time_steps)]
    begin = [mx.sym.Variable(f"begin{i}") for i in range(2 * layers)]
    outputs, _ = stack.unroll(time_steps, steps, begin_state=begin, merge_outputs=False)
    weight, bias = mx.sym.Variable("decoder_weight"), mx.sym.Variable("decoder_bias")
    losses = []
    for t, output in enumerate(outputs):
        scores = mx.sym.FullyConnected(output, weight=weight, bias=bias, num_hidden=classes, name=f"decoder{t}")
        losses.append(mx.sym.SoftmaxOutput(scores, name=f"softmax{t}", normalization="batch"))
    shapes = {f"data{t}": (batch, features) for t in range(time_steps)}
    shapes |= {f"begin{i}": (batch, hidden) for i in range(2 * layers)}
    name = f"{hidden // 1024}K" if hidden % 1024 == 0 else str(hidden)
    return PaperModel(f"RNN-{layers}-{name}", mx.sym.Group(losses), shapes)
