"""Change a model (an MXNet symbol) for a comparison.

The model then uses double precision, has no dropout, and avoids kernels that compute wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import mxnet as mx

from tdl_ops.mxnet.attributes import parse_attribute
from tofu.mxnet.frontend.inference import Shapes, infer_arguments
from tofu.mxnet.frontend.randomness import DROP_PROBABILITIES
from tofu.mxnet.frontend.recurrent_layers import split_layers
from tofu.mxnet.verify.kernels import list_declarations

WIDE_TYPE, WIDE_FLAG = "float64", "1"
SINGLE_PRECISION_OPERATORS = ("CTCLoss", "Crop", "InstanceNorm", "LRN", "SoftmaxActivation")
"""Operators that MXNet has only in float32. Each has one visible output."""
NARROW_TYPES, NARROW_FLAGS = ("float32", "float16"), ("0", "2")
MOST_READERS = 7
RANDOM_PREFIXES = ("_random_", "_sample_")
"""Prefixes of operators that draw float32 numbers by default."""

Change = Callable[[str, dict[str, str]], dict[str, str]]  # (operator type, attributes) -> changed attributes


def widen_types(symbol: Any) -> Any:
    """Return a copy of a model that computes in float64, except in operators without a float64 kernel."""

    def widen(op: str, attributes: dict[str, str]) -> dict[str, str]:
        if op == "null":
            return {"__dtype__": WIDE_FLAG} if attributes.get("__dtype__") in NARROW_FLAGS else {}
        dtype = attributes.get("dtype", _find_default_type(op))
        is_narrow = dtype in NARROW_TYPES or (dtype == "None" and op.startswith(RANDOM_PREFIXES))
        return {"dtype": WIDE_TYPE} if is_narrow else {}

    return _cast_around(_change_attributes(symbol, widen)[0])


def list_single(symbol: Any) -> list[str]:
    """Return the names of the operators for which MXNet has a float32 kernel but no float64 kernel."""
    return [node["name"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] in SINGLE_PRECISION_OPERATORS]


def _cast_around(symbol: Any) -> Any:
    model = json.loads(symbol.tojson())
    nodes = model["nodes"]
    for number in [n for n, node in enumerate(nodes) if node["op"] in SINGLE_PRECISION_OPERATORS]:
        node = nodes[number]
        _insert_after(model, number, "Cast", "wide", {"dtype": WIDE_TYPE})
        for slot, entry in enumerate(node["inputs"]):
            node["inputs"][slot] = [len(nodes), 0, 0]
            name = f"{node['name']}/single{slot}"
            nodes.append({"op": "Cast", "name": name, "attrs": {"dtype": "float32"}, "inputs": [entry]})
    return mx.sym.load_json(json.dumps(model))


def _insert_after(model: dict[str, Any], number: int, op: str, name: str, attributes: dict[str, str]) -> None:
    nodes = model["nodes"]
    for entries in (model["heads"], *(node["inputs"] for node in nodes)):
        entries[:] = [[len(nodes), 0, 0] if entry[:2] == [number, 0] else entry for entry in entries]
    full_name = f"{nodes[number]['name']}/{name}"
    nodes.append({"op": op, "name": full_name, "attrs": attributes, "inputs": [[number, 0, 0]]})


def without_dropout(symbol: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a copy of the model without dropout, and the names of the changed operators."""

    def turn_off(op: str, attributes: dict[str, str]) -> dict[str, str]:
        drops = op in DROP_PROBABILITIES and float(attributes.get("p", DROP_PROBABILITIES[op])) > 0
        return {"p": "0"} if drops else {}

    return _change_attributes(symbol, turn_off)


def split_readers(symbol: Any, *_: Any) -> Any:
    """Return a copy of the model in which at most seven operators read each output.

    More operators read copies of the output. MXNet may compute a wrong sum of eight or more gradients.
    """
    model = json.loads(symbol.tojson())
    nodes, states = model["nodes"], set(symbol.list_auxiliary_states())
    readers_by_output: dict[tuple[int, int], list[list[int]]] = {}
    for node in nodes:
        for entry in node["inputs"]:
            if nodes[entry[0]]["name"] not in states:
                readers_by_output.setdefault((entry[0], entry[1]), []).append(entry)
    for (number, output), readers in readers_by_output.items():
        for first in range(0, len(readers), MOST_READERS) if len(readers) > MOST_READERS else ():
            name = f"{nodes[number]['name']}/copy{output}_{first}"
            nodes.append(
                {"op": "_copy", "name": name, "attrs": {"__reader__": str(first)}, "inputs": [[number, output, 0]]}
            )
            for entry in readers[first : first + MOST_READERS]:
                entry[:2] = len(nodes) - 1, 0
    return mx.sym.load_json(json.dumps(model))


def avoid_blocked_layouts(symbol: Any, *_: Any) -> Any:
    """Return a copy of the model with a slice (of all elements) after each LRN, a normalisation layer.

    On CPUs, the gradient of LRN cannot read arrays that the library oneDNN stores in blocks. The slice converts them.
    """
    model = json.loads(symbol.tojson())
    for number in [number for number, node in enumerate(model["nodes"]) if node["op"] == "LRN"]:
        _insert_after(model, number, "slice_axis", "plain", {"axis": "0", "begin": "0", "end": "None"})
    return mx.sym.load_json(json.dumps(model))


def complete_ctc_loss(symbol: Any, *_: Any) -> Any:
    """Return a copy of a model in which Tofu's operator replaces CTCLoss (a loss of unaligned sequences).

    MXNet's kernel writes no results if no sample has a label. It writes no gradient for samples that are shorter than
    their labels.
    """
    model = json.loads(symbol.tojson())
    for node in model["nodes"]:
        node["op"] = "_tofu_ctc_loss" if node["op"] == "CTCLoss" else node["op"]
    return mx.sym.load_json(json.dumps(model))


def split_recurrences(
    symbol: Any,
    shapes: Shapes,
    dtypes: Mapping[str, Any],
    must_split: Callable[[Mapping[str, Any]], bool] = lambda node: True,
) -> Any:
    """Return a copy of the model in which some RNN operators become one operator per layer.

    `must_split` chooses the operators. The copy states the shapes of all variables, which MXNet cannot infer.
    """
    known_shapes, known_types = infer_arguments(symbol, shapes, dtypes)
    split_symbol = split_layers(symbol, known_shapes, known_types, must_split)
    if split_symbol is symbol:
        return symbol
    model = json.loads(split_symbol.tojson())
    for node in model["nodes"]:
        if known_shapes.get(node["name"]) and node["op"] == "null":
            node["attrs"] = {**node.get("attrs", {}), "__shape__": str(known_shapes[node["name"]])}
    return mx.sym.load_json(json.dumps(model))


def divide_by_window_size(symbol: Any, shapes: Shapes, dtypes: Mapping[str, Any]) -> Any:
    """Return a copy of the model in which average pooling divides by the number of elements in each window.

    If the tensor's border cuts a window, MXNet computes a wrong gradient on CPUs: it divides by the size of a complete
    window.
    """

    def change(op: str, attributes: dict[str, str]) -> dict[str, str]:
        is_average = op == "Pooling" and attributes.get("pool_type") == "avg"
        is_padded = any(parse_attribute(attributes.get("pad", "()"), ()))
        return {"count_include_pad": "False"} if is_average and not is_padded else {}

    return _change_attributes(symbol, change)[0]


CORRECTIONS: tuple[tuple[Callable[[Any, Shapes, Mapping[str, Any]], Any], str], ...] = (
    (split_readers, "MXNet adds to sums in place"),
    (avoid_blocked_layouts, "MXNet's gradient of LRN reads uninitialised memory"),
    (split_recurrences, "MXNet's own kernel of RNN computes several layers wrong"),
    (divide_by_window_size, "oneDNN's gradient of average pooling is wrong if a window is cut"),
    (complete_ctc_loss, "MXNet's CTCLoss does not write some results"),
)
"""Functions that change a symbol to avoid a mistake of MXNet on one device, with a description of the mistake.

Their arguments are the symbol, the shapes of its inputs, and the types of its arguments.
"""


def _change_attributes(symbol: Any, change: Change) -> tuple[Any, tuple[str, ...]]:
    model, changed_names = json.loads(symbol.tojson()), []
    for node in model["nodes"]:
        changed_attributes = change(node["op"], node.get("attrs", {}))
        node["attrs"] = node.get("attrs", {}) | changed_attributes
        changed_names += [node["name"]] if changed_attributes else []
    return mx.sym.load_json(json.dumps(model)), tuple(changed_names)


@cache
def _find_default_type(op: str) -> str:
    declaration = dict(list_declarations(op)).get("dtype", "")
    default = re.search(r"default='?(\w+)", declaration)
    return default[1] if default else ""
