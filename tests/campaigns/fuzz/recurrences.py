"""Recurrences: MXNet's cells unrolled, cells made of random layers, and the fused operator."""

from __future__ import annotations

import mxnet as mx

from tests.campaigns.fuzz.chains import join
from tests.campaigns.fuzz.sample import DOUBLE, Growth

GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}


def grow_recurrence(grow: Growth) -> mx.sym.Symbol:
    return grow.rng.choice((_unroll_cells, _unroll_own, _unroll_own, _fuse))(grow)


def _unroll_cells(grow: Growth) -> mx.sym.Symbol:
    r = grow.rng
    steps, batch, width, hidden = r.choice((2, 3, 7, 8, 9)), r.choice((2, 3, 8, 9)), r.randint(1, 6), r.randint(1, 6)
    stack = mx.rnn.SequentialRNNCell()
    for _ in range(r.randint(1, 2)):
        cell = r.choice((mx.rnn.RNNCell, mx.rnn.LSTMCell, mx.rnn.GRUCell))(hidden, prefix=f"{grow.name('cell')}_")
        stack.add(mx.rnn.ResidualCell(cell) if width == hidden and r.random() < 0.3 else cell)
        width = hidden
    data = [grow.data(batch, width_in) for width_in in [_input_width(stack, width)] * steps]
    begin = [grow.parameter(batch, hidden, kind="begin") for _ in stack.state_info]
    outputs, states = stack.unroll(steps, data, begin_state=begin, merge_outputs=False)
    read = outputs if r.random() < 0.6 else [outputs[-1], states[-1]]
    return join(grow, list(read))


def _input_width(stack: mx.rnn.SequentialRNNCell, hidden: int) -> int:
    is_residual = any(isinstance(cell, mx.rnn.ResidualCell) for cell in stack._cells)
    return hidden if is_residual else hidden + 1


def _unroll_own(grow: Growth) -> mx.sym.Symbol:
    r = grow.rng
    batch, width, hidden = r.choice((1, 2, 3, 8, 12)), r.randint(1, 5), r.choice((2, 3, 4, 8, 9))
    weights = [grow.parameter(hidden, n) for n in (width, hidden)]
    bias = grow.parameter(hidden) if r.random() < 0.5 else None
    scale = grow.parameter(1, hidden) if r.random() < 0.4 else None
    between = r.choice((mx.sym.tanh, mx.sym.identity, mx.sym.negative, lambda x: mx.sym.clip(x, -0.7, 0.8)))
    state = grow.parameter(batch, hidden)
    is_shared = r.random() < 0.3  # every step reads the same input
    first = grow.data(batch, width)
    outputs = []
    for step in range(r.choice((2, 4, 7, 8, 8, 9, 12))):
        x = first if is_shared or step == 0 else grow.data(batch, width)
        terms = [
            mx.sym.FullyConnected(
                x, weights[0], *([] if bias is None else [bias]), num_hidden=hidden, no_bias=bias is None
            )
        ]
        terms.append(mx.sym.FullyConnected(state, weights[1], num_hidden=hidden, no_bias=True))
        state = between(terms[0] + terms[1])
        if scale is not None:
            state = mx.sym.broadcast_mul(state, scale)
        outputs.append(state)
    return join(grow, outputs if r.random() < 0.6 else outputs[-1:])


def _fuse(grow: Growth) -> mx.sym.Symbol:
    r = grow.rng
    mode, layers, directions = r.choice(sorted(GATES)), r.randint(1, 2), r.choice((1, 1, 2))
    steps, batch, width, hidden = r.randint(1, 6), r.choice((2, 3, 8, 9)), r.randint(1, 6), r.randint(1, 5)
    widths = [width] + [directions * hidden] * (layers - 1)
    size = sum(directions * GATES[mode] * hidden * (w + hidden + 2) for w in widths)
    states = [grow.parameter(layers * directions, batch, hidden) for _ in range(1 + (mode == "lstm"))]
    made = mx.sym.RNN(
        grow.data(steps, batch, width),
        mx.sym.Variable(f"{grow.name('v')}_parameters", shape=(size,), dtype=DOUBLE),
        *states,
        mode=mode,
        state_size=hidden,
        num_layers=layers,
        bidirectional=directions == 2,
        state_outputs=r.random() < 0.5,
        name=grow.name("rnn"),
    )
    return mx.sym.Group([mx.sym.tanh(output) for output in made])
