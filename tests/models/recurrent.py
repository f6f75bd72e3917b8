"""Small recurrent models. Types are explicit, because an Embedding does not infer its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx

from tests.models.plain import PlainModel

STEPS, VOCABULARY, EMBEDDED, HIDDEN = 6, 11, 7, 10
CELLS = {"lstm": mx.rnn.LSTMCell, "gru": mx.rnn.GRUCell}


def embed(dtype: str) -> Any:
    return mx.sym.Embedding(
        mx.sym.Variable("tokens"), input_dim=VOCABULARY, output_dim=EMBEDDED, dtype=dtype, name="embed"
    )


def predict_words(outputs: Any, width: int) -> Any:
    words = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, width)), num_hidden=VOCABULARY, name="word")
    labels = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(words, labels, name="softmax")


def language_model(cell: Any, batch: int, dtype: str, states: list[Any], width: int = HIDDEN) -> PlainModel:
    outputs, _ = cell.unroll(STEPS, inputs=embed(dtype), begin_state=states, merge_outputs=True, layout="NTC")
    shapes = {"tokens": (batch, STEPS), "softmax_label": (batch, STEPS)}
    shapes.update({state.name: (batch, HIDDEN) for state in states})
    return PlainModel(predict_words(outputs, width), shapes, VOCABULARY)


def stack(kind: str, layers: int = 2) -> Any:
    cell = mx.rnn.SequentialRNNCell()
    for i in range(layers):
        cell.add(CELLS[kind](HIDDEN, prefix=f"{kind}{i}_"))
    return cell


def stacked(kind: str, dtype: str, batch: int = 9) -> PlainModel:
    cell = stack(kind)
    return language_model(cell, batch, dtype, cell.begin_state(func=mx.sym.Variable))


def bidirectional(dtype: str, batch: int = 9, layers: int = 1) -> PlainModel:
    cell = mx.rnn.SequentialRNNCell()
    for i in range(layers):
        left, right = (mx.rnn.GRUCell(HIDDEN, prefix=f"{side}{i}_") for side in ("left", "right"))
        cell.add(mx.rnn.BidirectionalCell(left, right, output_prefix=f"both{i}_"))
    return language_model(cell, batch, dtype, cell.begin_state(func=mx.sym.Variable), 2 * HIDDEN)


def gluon_lstm(dtype: str, batch: int = 9) -> PlainModel:
    cell = mx.gluon.rnn.HybridSequentialRNNCell(prefix="lstm_")
    for i in range(2):
        cell.add(mx.gluon.rnn.LSTMCell(HIDDEN, prefix=f"lstm{i}_"))
    for parameter in cell.collect_params().values():
        parameter.cast(dtype)
    states = [mx.sym.Variable(f"begin_state_{i}") for i in range(len(cell.state_info()))]
    return language_model(cell, batch, dtype, states)


def fused(dtype: str, batch: int = 9) -> PlainModel:
    states = ("state", "cell_state")  # (batch, layers, HIDDEN)
    inputs = [mx.sym.SwapAxis(i, dim1=0, dim2=1) for i in (embed(dtype), *map(mx.sym.Variable, states))]
    parameters = mx.sym.Variable("rnn_parameters")
    net = mx.sym.RNN(inputs[0], parameters, *inputs[1:], mode="lstm", num_layers=2, state_size=HIDDEN, name="rnn")
    outputs = mx.sym.SwapAxis(net, dim1=0, dim2=1)
    shapes = {"tokens": (batch, STEPS), "softmax_label": (batch, STEPS)}
    shapes.update(dict.fromkeys(states, (batch, 2, HIDDEN)))
    return PlainModel(predict_words(outputs, HIDDEN), shapes, VOCABULARY)


class CoupledCell(mx.rnn.BaseRNNCell):
    def __init__(self, prefix: str) -> None:
        super().__init__(prefix=prefix)
        weights = ("input_weight", "state_weight", "gate_bias")
        self._input_weight, self._state_weight, self._bias = (self.params.get(name) for name in weights)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": (0, HIDDEN), "__layout__": "NC"}]

    def __call__(self, inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        both = mx.sym.FullyConnected(
            inputs, self._input_weight, num_hidden=3 * HIDDEN, no_bias=True, flatten=False, name=f"{name}input"
        ) + mx.sym.FullyConnected(states[0], self._state_weight, self._bias, num_hidden=3 * HIDDEN, name=f"{name}state")
        gate, fresh, seen = mx.sym.split(both, num_outputs=3, axis=1, name=f"{name}parts")
        gate, seen = mx.sym.sigmoid(gate), mx.sym.Activation(seen, act_type="softsign")
        state = gate * states[0] + (1 - gate) * mx.sym.tanh(fresh)
        return state * seen, [state]


def own_cell(dtype: str, batch: int = 9) -> PlainModel:
    return language_model(CoupledCell("own_"), batch, dtype, [mx.sym.Variable("begin_state")])


def attention_decoder(dtype: str, batch: int = 9, steps: int = 9) -> PlainModel:
    """MXNet adds the gradients of more than eight readers in a chain."""
    memory, state = embed(dtype), mx.sym.Variable("begin_state")
    shared = {name: mx.sym.Variable(f"{name}_weight") for name in ("query", "key", "score")}
    keys = mx.sym.FullyConnected(memory, shared["key"], num_hidden=HIDDEN, no_bias=True, flatten=False, name="key")
    outputs = []
    for step in range(steps):
        query = mx.sym.FullyConnected(state, shared["query"], num_hidden=HIDDEN, no_bias=True, name=f"query{step}")
        mixed = mx.sym.tanh(mx.sym.broadcast_add(keys, mx.sym.expand_dims(query, axis=1)))
        scores = mx.sym.FullyConnected(mixed, shared["score"], num_hidden=1, no_bias=True, flatten=False)
        weights = mx.sym.softmax(scores, axis=1)
        context = mx.sym.sum(mx.sym.broadcast_mul(memory, weights), axis=1)
        state = mx.sym.tanh(mx.sym.concat(context, mx.sym.slice_axis(state, axis=1, begin=EMBEDDED, end=None), dim=1))
        outputs.append(state)
    stacked_outputs = mx.sym.concat(*(mx.sym.expand_dims(output, axis=1) for output in outputs), dim=1)
    shapes = {"tokens": (batch, STEPS), "softmax_label": (batch, steps), "begin_state": (batch, HIDDEN)}
    return PlainModel(predict_words(stacked_outputs, HIDDEN), shapes, VOCABULARY)


RECURRENT_MODELS: dict[str, Callable[[str], PlainModel]] = {
    "lstm": lambda dtype: stacked("lstm", dtype),
    "gru": lambda dtype: stacked("gru", dtype),
    "bidirectional_gru": bidirectional,
    "gluon_lstm": gluon_lstm,
    "own_cell": own_cell,
    "fused_lstm": fused,
    "attention_decoder": attention_decoder,
}
