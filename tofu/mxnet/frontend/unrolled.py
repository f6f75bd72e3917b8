"""Replacement of MXNet's RNN operator, which computes a whole sequence, by the cells that it computes step by step.

The operator can only be split by batch, but cells also by hidden units. A worker has all gates of its units, so the
rows of the weights, which come from the operator's vector of parameters, are ordered by unit. The states of each step
are gathered for the next. Cells with rectifiers are not unrolled: the operator computes them in single precision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from tofu.mxnet.frontend.inference import Shapes
from tofu.mxnet.frontend.splice import Operand, rewrite_operators

GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}


def has_recurrences(symbol: Any) -> bool:
    """Return True if there is an RNN operator that can be unrolled."""
    return any(_is_plain(node) for node in json.loads(symbol.tojson())["nodes"])


def unroll_recurrences(symbol: Any, shapes: Shapes, types: Mapping[str, int]) -> Any:
    """Return the symbol with cells in place of all RNN operators that can be unrolled.

    `shapes` and `types` are those of all variables.
    """

    def find_cells(node: Mapping[str, Any], operands: Sequence[Operand], shape: tuple[int, ...]) -> Any:
        if not _is_plain(node):
            return None
        return Recurrence(node["name"], node.get("attrs", {}), operands[0][0]).unroll(len(operands))

    return rewrite_operators(symbol, shapes, types, {"RNN": find_cells})


def _is_plain(node: Mapping[str, Any]) -> bool:
    """Return True if an RNN operator can be unrolled: sequences are whole, and states neither projected nor clipped."""
    attributes = node.get("attrs", {})
    if node["op"] != "RNN" or attributes.get("mode") not in GATES:
        return False
    odd = ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max")
    is_odd = attributes.get("use_sequence_length", "False") in ("True", "1")
    return not is_odd and all(attributes.get(name, "None") == "None" for name in odd)


@dataclass
class Recurrence:
    """RNN operator over data of shape (time, batch, features)."""

    name: str
    attributes: Mapping[str, str]
    data: tuple[int, ...]

    def __post_init__(self) -> None:
        self.mode = self.attributes["mode"]
        self.units = int(self.attributes["state_size"])
        self.layers = int(self.attributes["num_layers"])
        self.directions = 2 if self.attributes.get("bidirectional", "False") in ("True", "1") else 1
        self.gates = GATES[self.mode]
        self.rows = self.gates * self.units
        self.taken = 0  # number of parameters that are assigned to weights

    def unroll(self, count: int) -> Any:
        """Return the cells as a symbol over `count` variables "0", "1", ...: data, parameters, and one or two states."""
        variables = [mx.sym.Variable(str(n)) for n in range(count)]
        with mx.name.Prefix(f"{self.name}_"):
            return mx.sym.Group(self._run(*variables))

    def _run(self, data: Any, parameters: Any, *states: Any) -> list[Any]:
        weights = [
            [
                self._take(parameters, self._width(layer)),
                self._take(parameters, self.units),
            ]
            for layer in range(self.layers)
            for _ in range(self.directions)
        ]
        biases = [[self._take(parameters), self._take(parameters)] for _ in weights]
        last: list[list[Any]] = []
        share = float(self.attributes.get("p", "0"))
        for layer in range(self.layers):
            if layer > 0 and share > 0:
                data = mx.sym.Dropout(data, p=share)
            ways = []
            for direction in range(self.directions):
                n = layer * self.directions + direction
                own = [mx.sym.reshape(mx.sym.slice_axis(s, axis=0, begin=n, end=n + 1), shape=(-3, 0)) for s in states]
                outputs, ends = self._run_layer(data, weights[n], biases[n], own, direction == 1)
                ways.append(outputs)
                last.append(ends)
            data = ways[0] if len(ways) == 1 else mx.sym.Concat(*ways, dim=2)
        outputs = [data]
        if self.attributes.get("state_outputs", "False") in ("True", "1"):
            outputs += [mx.sym.stack(*kind, axis=0) for kind in zip(*last, strict=True)]
        return outputs

    def _width(self, layer: int) -> int:
        return self.data[2] if layer == 0 else self.units * self.directions

    def _take(self, parameters: Any, width: int | None = None) -> Any:
        """Return the next weight or bias from the vector of parameters, with the rows of each unit together."""
        size = self.units * (width or 1)
        shape = (self.units, 1) if width is None else (self.units, 1, width)
        parts = []
        for _ in range(self.gates):
            part = mx.sym.slice_axis(parameters, axis=0, begin=self.taken, end=self.taken + size)
            parts.append(mx.sym.reshape(part, shape=shape))
            self.taken += size
        whole = parts[0] if len(parts) == 1 else mx.sym.Concat(*parts, dim=1)
        return mx.sym.reshape(whole, shape=(self.rows,) if width is None else (self.rows, width))

    def _run_layer(
        self, data: Any, weights: Sequence[Any], biases: Sequence[Any], states: list[Any], is_reversed: bool
    ) -> tuple[Any, list[Any]]:
        time = self.data[0]
        read = mx.sym.FullyConnected(data, weights[0], biases[0], num_hidden=self.rows, flatten=False)
        steps = mx.sym.SliceChannel(read, num_outputs=time, axis=0, squeeze_axis=True)
        order = range(time)[::-1] if is_reversed else range(time)
        outputs = [None] * time
        for t in order:
            own = mx.sym.FullyConnected(states[0], weights[1], biases[1], num_hidden=self.rows)
            states = self._cell(self._split(steps[t]), self._split(own), states)
            outputs[t] = states[0]
        return mx.sym.stack(*outputs, axis=0), states

    def _split(self, rows: Any) -> list[Any]:
        if self.gates == 1:
            return [rows]
        units = mx.sym.reshape(rows, shape=(0, self.units, self.gates))
        return list(mx.sym.SliceChannel(units, num_outputs=self.gates, axis=2, squeeze_axis=True))

    def _cell(self, read: Sequence[Any], own: Sequence[Any], states: Sequence[Any]) -> list[Any]:
        if self.gates == 1:
            return [mx.sym.tanh(read[0] + own[0])]
        sigmoid, tanh = mx.sym.sigmoid, mx.sym.tanh
        if self.mode == "gru":
            reset, update = (sigmoid(read[n] + own[n]) for n in (0, 1))
            new = tanh(read[2] + reset * own[2])
            return [new + update * (states[0] - new)]
        enter, forget, value, leave = (x + h for x, h in zip(read, own, strict=True))
        cell = sigmoid(forget) * states[1] + sigmoid(enter) * tanh(value)
        return [sigmoid(leave) * tanh(cell), cell]
