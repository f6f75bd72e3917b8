"""Replacement of operators by symbols in MXNet's JSON of a graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.mxnet.frontend.inference import DTYPE_NAMES, Shapes

Operand = tuple[tuple[int, ...], str]
"""Shape and type of an operator's input."""
Find = Callable[[Mapping[str, Any], Sequence[Operand], tuple[int, ...]], Any]
"""Function of a node in MXNet's JSON, its operands and the shape of its first output.

It returns a symbol over the variables "0", "1", .., or None.
"""
_UNSHAPED = ("_zeros", "_ones")
"""Operators, such as first states, whose shapes MXNet completes from their readers."""


def rewrite_operators(
    symbol: Any,
    shapes: Shapes,
    types: Mapping[str, int],
    find: Mapping[str, Find],
    keeps_names: bool = False,
) -> Any:
    """Return the symbol with other symbols in place of some operators. `shapes` and `types` describe all variables.

    `find` has a function for each operator that may be replaced. With `keeps_names`, the operator that computes the only
    output of such a symbol gets the name of the operator that is replaced.
    """
    graph, nodes = json.loads(symbol.tojson()), _mxnet.nodes(symbol.handle.value)
    assert [node["name"] for node in graph["nodes"]] == [node["name"] for node in nodes]
    known = {node["name"] for node in nodes if node["op"] == "null"}.intersection(shapes)
    given = {name: shapes[name] for name in known}
    found, codes = _mxnet.infer(symbol.handle.value, given, {name: types[name] for name in known})

    def describe(entry: Sequence[int]) -> Operand:
        position = nodes[entry[0]]["entry"] + entry[1]
        return tuple(found[position]), DTYPE_NAMES[codes[position]]

    splice = Splice()
    for number, node in enumerate(graph["nodes"]):
        inputs = [splice.entry(entry) for entry in node["inputs"]]
        if node["op"] in find:
            shape, _ = describe((number, 0))
            new = find[node["op"]](node, [describe(entry) for entry in node["inputs"]], shape)
            if new is not None:
                splice.replace(new, inputs, node["name"] if keeps_names else None)
                continue
        if node["op"] in _UNSHAPED:
            node["attrs"]["shape"] = str(tuple(found[nodes[number]["entry"]]))
        splice.add({**node, "inputs": inputs})
    return splice.symbol(graph)


class Splice:
    """MXNet's JSON of a graph, rewritten node by node."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.outputs: list[list[list[int]]] = []  # old node -> new entries of its outputs

    def entry(self, old: Sequence[int]) -> list[int]:
        """Return the new entry of an old node's output."""
        number, output = self.outputs[old[0]], old[1]
        return number[output] if len(number) > 1 or number[0][1] >= 0 else [number[0][0], output, 0]

    def add(self, node: dict[str, Any]) -> None:
        """Add the next node unchanged."""
        self.outputs.append([[len(self.nodes), -1, 0]])
        self.nodes.append(node)

    def replace(self, symbol: Any, inputs: Sequence[list[int]], name: str | None = None) -> None:
        """Replace the next node by a symbol, whose variables "0", "1", ... stand for the node's inputs.

        If the symbol has one output, its operator gets the `name`.
        """
        own = json.loads(symbol.tojson())
        place: list[list[int]] = []
        for node in own["nodes"]:
            if node["op"] == "null":
                place.append(inputs[int(node["name"])])
                continue
            place.append([len(self.nodes), -1, 0])
            self.nodes.append({**node, "inputs": [_move(place, entry) for entry in node["inputs"]]})
        heads = [_move(place, head) for head in own["heads"]]
        if name is not None and len(heads) == 1:
            self.nodes[heads[0][0]]["name"] = name
        self.outputs.append(heads)

    def symbol(self, graph: Mapping[str, Any]) -> Any:
        """Return the result as a symbol with the outputs of the original graph."""
        variables = [n for n, node in enumerate(self.nodes) if node["op"] == "null"]
        pointers = list(range(len(self.nodes) + 1))
        whole = {
            "nodes": self.nodes,
            "arg_nodes": variables,
            "node_row_ptr": pointers,
            "heads": [self.entry(head) for head in graph["heads"]],
            "attrs": graph["attrs"],
        }
        return mx.sym.load_json(json.dumps(whole))


def _move(place: Sequence[list[int]], entry: Sequence[int]) -> list[int]:
    number, output, _ = place[entry[0]]
    return [number, entry[1] if output < 0 else output, 0]
