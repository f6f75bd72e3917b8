"""Replace MXNet's RNN operator for whole sequences by cells for single time steps.

The RNN operator can only be split by batch. Cells can also be split by hidden units. For this, the rows of the weights
are ordered by unit. RNN operators with rectifiers are not replaced, because MXNet computes them in single precision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from tdl_ops.mxnet.attributes import is_true
from tofu.mxnet.frontend.inference import Shapes
from tofu.mxnet.frontend.splice import Operand, rewrite_operators

GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}


def has_recurrences(symbol: Any) -> bool:
    """Return True if an RNN operator of the model can be replaced by cells (operators for one time step)."""
    return any(_can_be_unrolled(node) for node in json.loads(symbol.tojson())["nodes"])


def unroll_recurrences(symbol: Any, shapes: Shapes, types: Mapping[str, int]) -> Any:
    """Replace RNN operators by one cell per time step where possible.

    `shapes` and `types` describe all variables of the model.
    """

    def find_cells(node: Mapping[str, Any], operands: Sequence[Operand], shape: tuple[int, ...]) -> Any:
        if not _can_be_unrolled(node):
            return None
        return Recurrence(node["name"], node.get("attrs", {}), operands[0][0]).unroll(len(operands))

    return rewrite_operators(symbol, shapes, types, {"RNN": find_cells})


def _can_be_unrolled(node: Mapping[str, Any]) -> bool:
    attributes = node.get("attrs", {})
    if node["op"] != "RNN" or attributes.get("mode") not in GATES:
        return False
    if is_true(attributes, "use_sequence_length"):
        return False
    unsupported = ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max")
    return all(attributes.get(name, "None") == "None" for name in unsupported)


@dataclass
class Recurrence:
    """An RNN operator on data of the shape (time, batch, features)."""

    name: str
    attributes: Mapping[str, str]
    data_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self.mode = self.attributes["mode"]
        self.units = int(self.attributes["state_size"])
        self.layers = int(self.attributes["num_layers"])
        self.directions = 2 if is_true(self.attributes, "bidirectional") else 1
        self.gates = GATES[self.mode]
        self.rows = self.gates * self.units
        self.next_parameter = 0  # position in the vector of parameters where the next weight or bias begins

    def unroll(self, count: int) -> Any:
        """Return an MXNet graph that replaces this operator by one cell per time step.

        Its `count` variables "0", "1", ... are the data, the parameters, and one or two states.
        """
        variables = [mx.sym.Variable(str(n)) for n in range(count)]
        with mx.name.Prefix(f"{self.name}_"):
            return mx.sym.Group(self._build_outputs(*variables))

    def _build_outputs(self, data: Any, parameters: Any, *states: Any) -> list[Any]:
        weights = [
            [self._take_weight(parameters, self._input_width(layer)), self._take_weight(parameters, self.units)]
            for layer in range(self.layers)
            for _ in range(self.directions)
        ]
        biases = [[self._take_weight(parameters), self._take_weight(parameters)] for _ in weights]
        last_states: list[list[Any]] = []
        drop_probability = float(self.attributes.get("p", "0"))
        for layer in range(self.layers):
            if layer > 0 and drop_probability > 0:
                data = mx.sym.Dropout(data, p=drop_probability)
            outputs_by_direction = []
            for direction in range(self.directions):
                n = layer * self.directions + direction
                first_states = [
                    mx.sym.reshape(mx.sym.slice_axis(state, axis=0, begin=n, end=n + 1), shape=(-3, 0))
                    for state in states
                ]
                output, layer_states = self._run_layer(data, weights[n], biases[n], first_states, direction == 1)
                outputs_by_direction.append(output)
                last_states.append(layer_states)
            is_single = len(outputs_by_direction) == 1
            data = outputs_by_direction[0] if is_single else mx.sym.Concat(*outputs_by_direction, dim=2)
        outputs = [data]
        if is_true(self.attributes, "state_outputs"):
            outputs += [mx.sym.stack(*states_of_layers, axis=0) for states_of_layers in zip(*last_states, strict=True)]
        return outputs

    def _input_width(self, layer: int) -> int:
        return self.data_shape[2] if layer == 0 else self.units * self.directions

    def _take_weight(self, parameters: Any, width: int | None = None) -> Any:
        size = self.units * (width or 1)
        shape = (self.units, 1) if width is None else (self.units, 1, width)
        parts = []
        for _ in range(self.gates):
            end = self.next_parameter + size
            part = mx.sym.slice_axis(parameters, axis=0, begin=self.next_parameter, end=end)
            parts.append(mx.sym.reshape(part, shape=shape))
            self.next_parameter = end
        whole = parts[0] if len(parts) == 1 else mx.sym.Concat(*parts, dim=1)
        return mx.sym.reshape(whole, shape=(self.rows,) if width is None else (self.rows, width))

    def _run_layer(
        self, data: Any, weights: Sequence[Any], biases: Sequence[Any], states: list[Any], is_reversed: bool
    ) -> tuple[Any, list[Any]]:
        steps = self.data_shape[0]
        products = mx.sym.FullyConnected(data, weights[0], biases[0], num_hidden=self.rows, flatten=False)
        product_by_step = mx.sym.SliceChannel(products, num_outputs=steps, axis=0, squeeze_axis=True)
        order = range(steps)[::-1] if is_reversed else range(steps)
        outputs = [None] * steps
        for step in order:
            state_product = mx.sym.FullyConnected(states[0], weights[1], biases[1], num_hidden=self.rows)
            states = self._run_cell(self._split_gates(product_by_step[step]), self._split_gates(state_product), states)
            outputs[step] = states[0]
        return mx.sym.stack(*outputs, axis=0), states

    def _split_gates(self, rows: Any) -> list[Any]:
        if self.gates == 1:
            return [rows]
        units = mx.sym.reshape(rows, shape=(0, self.units, self.gates))
        return list(mx.sym.SliceChannel(units, num_outputs=self.gates, axis=2, squeeze_axis=True))

    def _run_cell(self, input_gates: Sequence[Any], state_gates: Sequence[Any], states: Sequence[Any]) -> list[Any]:
        if self.gates == 1:
            return [mx.sym.tanh(input_gates[0] + state_gates[0])]
        sigmoid, tanh = mx.sym.sigmoid, mx.sym.tanh
        if self.mode == "gru":
            reset, update = (sigmoid(input_gates[n] + state_gates[n]) for n in (0, 1))
            new = tanh(input_gates[2] + reset * state_gates[2])
            return [new + update * (states[0] - new)]
        input_gate, forget_gate, value, output_gate = (x + h for x, h in zip(input_gates, state_gates, strict=True))
        cell = sigmoid(forget_gate) * states[1] + sigmoid(input_gate) * tanh(value)
        return [sigmoid(output_gate) * tanh(cell), cell]
