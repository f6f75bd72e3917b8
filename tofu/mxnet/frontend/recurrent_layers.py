"""Replace MXNet's RNN operators of several layers by one operator per layer, if MXNet's own gradients are wrong.

Workers run MXNet's own kernels of RNN, not the kernels of the library oneDNN. MXNet 1.9.1 computes these gradients
wrong:

- rnn_tanh and rnn_relu with three or more layers: the gradients of the input weights, except in the first and the last
  layer.
- All modes with dropout between layers: the gradients of the parameters. In GRU, also the gradients of the data and
  states.

Operators of one layer have no dropout, and their gradients are right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import mxnet as mx

from tdl_ops.mxnet.attributes import is_true
from tofu.mxnet.frontend.inference import Shapes
from tofu.mxnet.frontend.splice import Operand, rewrite_operators
from tofu.mxnet.frontend.unrolled import GATES

ONEDNN_RECURRENCE = "MXNET_USE_MKLDNN_RNN"
"""Environment variable that MXNet reads when it binds. Tofu sets it to 0 for the workers."""
GATES_BY_MODE = {"rnn_relu": 1, **GATES}
WRONG_FROM_LAYERS = {"rnn_tanh": 3, "rnn_relu": 3}
"""{mode: n} if a gradient is wrong with n or more layers. Other modes are right without dropout."""


def has_wrong_gradients(node: Mapping[str, Any]) -> bool:
    """Return True if MXNet's own kernel computes wrong gradients of an RNN operator with several layers."""
    layers, mode = int(node["attrs"]["num_layers"]), node["attrs"]["mode"]
    return draws_between_layers(node) or layers >= WRONG_FROM_LAYERS.get(mode, inf)


def draws_between_layers(node: Mapping[str, Any]) -> bool:
    """Return True if an RNN operator of several layers has dropout."""
    return float(node["attrs"].get("p", "0")) > 0


def split_layers(
    symbol: Any,
    shapes: Shapes,
    types: Mapping[str, int],
    must_split: Callable[[Mapping[str, Any]], bool] = has_wrong_gradients,
) -> Any:
    """Return a model in which some RNN operators of several layers are replaced by one operator per layer.

    `shapes` and `types` describe all variables. `must_split` chooses the operators, from their JSON. Return `symbol`
    itself if nothing is replaced.
    """

    def is_split(node: Mapping[str, Any]) -> bool:
        return can_be_split(node) and must_split(node)

    def find_layers(node: Mapping[str, Any], operands: Sequence[Operand], _: tuple[int, ...]) -> Any:
        return _build_layers(node, operands[1][0][0], len(operands)) if is_split(node) else None

    if not any(map(is_split, json.loads(symbol.tojson())["nodes"])):
        return symbol
    return rewrite_operators(symbol, shapes, types, {"RNN": find_layers})


def can_be_split(node: Mapping[str, Any]) -> bool:
    """Return True if an operator in MXNet's JSON is an RNN with several layers that can be computed one by one."""
    attributes = node.get("attrs", {})
    if node["op"] != "RNN" or int(attributes["num_layers"]) < 2 or attributes["mode"] not in GATES_BY_MODE:
        return False
    # Lengths and projections are not supported on CPUs.
    return not is_true(attributes, "use_sequence_length") and attributes.get("projection_size", "None") == "None"


def _build_layers(node: Mapping[str, Any], parameter_count: int, operand_count: int) -> Any:
    name, attributes = node["name"], dict(node["attrs"])
    layers, drop_probability = int(attributes["num_layers"]), float(attributes.pop("p", "0"))
    data, parameters, *states = (mx.sym.Variable(str(n)) for n in range(operand_count))
    outputs_by_layer = []
    with mx.name.Prefix(f"{name}_"):
        parameters_by_layer = _split_parameters(parameters, attributes, parameter_count)
        states_by_layer = [mx.sym.SliceChannel(state, num_outputs=layers, axis=0) for state in states]
    for layer in range(layers):
        if layer > 0 and drop_probability > 0:
            data = mx.sym.Dropout(data, p=drop_probability, name=f"{name}_dropout{layer}")
        first_states = [state[layer] for state in states_by_layer]
        layer_name = name if layer == layers - 1 else f"{name}_layer{layer}"
        attributes_of_layer = attributes | {"num_layers": "1"}
        outputs = mx.sym.RNN(data, parameters_by_layer[layer], *first_states, name=layer_name, **attributes_of_layer)
        data = outputs[0]
        outputs_by_layer.append(outputs)
    if not is_true(attributes, "state_outputs"):
        return data
    last_states = [
        mx.sym.concat(*(outputs[1 + n] for outputs in outputs_by_layer), dim=0, name=f"{name}_states{n}")
        for n in range(len(states))
    ]
    return mx.sym.Group([data, *last_states])


def _split_parameters(parameters: Any, attributes: Mapping[str, str], count: int) -> list[Any]:
    # The vector has the weights of all layers, then the biases of all layers.
    layers, units = int(attributes["num_layers"]), int(attributes["state_size"])
    directions = 2 if is_true(attributes, "bidirectional") else 1
    rows = directions * GATES_BY_MODE[attributes["mode"]] * units
    bias_size, weight_size = 2 * rows, rows * (directions * units + units)  # weights of layers after the first
    first_weight_size = count - (layers - 1) * weight_size - layers * bias_size
    parts, begin = [], 0
    for size in (first_weight_size, *[weight_size] * (layers - 1), *[bias_size] * layers):
        parts.append(mx.sym.slice_axis(parameters, axis=0, begin=begin, end=begin + size))
        begin += size
    return [mx.sym.concat(parts[layer], parts[layers + layer], dim=0) for layer in range(layers)]
