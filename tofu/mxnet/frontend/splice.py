"""Replace operators of a model by other graphs, in the JSON of MXNet symbols."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.mxnet.frontend.inference import DTYPE_NAMES, Shapes, infer_entries

Operand = tuple[tuple[int, ...], str]
"""Shape and type of an operator's input."""
FindReplacement = Callable[[Mapping[str, Any], Sequence[Operand], tuple[int, ...]], Any]
"""Function of an operator in MXNet's JSON, the shapes and types of the inputs, and the shape of the first output.

It returns a symbol whose variables "0", "1", ... stand for the inputs, or None if the operator stays.
"""
_CONSTANTS = ("_zeros", "_ones")
"""Operators whose shape may be missing, for example in first states. MXNet infers it from operators that read the output."""


def rewrite_operators(
    symbol: Any,
    shapes: Shapes,
    types: Mapping[str, int],
    find_by_op: Mapping[str, FindReplacement],
    keeps_names: bool = False,
) -> Any:
    """Return a copy of the model in which MXNet graphs (symbols) replace some operators.

    `shapes` and `types` describe all variables. `find_by_op` maps an operator type to a function that returns the
    replacement, or None. If `keeps_names` is True, replacements keep the operators' names.
    """
    graph, nodes = json.loads(symbol.tojson()), _mxnet.nodes(symbol.handle.value)
    assert [node["name"] for node in graph["nodes"]] == [node["name"] for node in nodes]
    entry_shapes, entry_types = infer_entries(symbol, shapes, types)

    def describe(entry: Sequence[int]) -> Operand:
        position = nodes[entry[0]]["entry"] + entry[1]
        shape = entry_shapes[position]
        assert shape is not None
        return tuple(shape), DTYPE_NAMES[entry_types[position]]

    splice = Splice()
    for number, node in enumerate(graph["nodes"]):
        inputs = [splice.entry(entry) for entry in node["inputs"]]
        if node["op"] in find_by_op:
            shape, _ = describe((number, 0))
            replacement = find_by_op[node["op"]](node, [describe(entry) for entry in node["inputs"]], shape)
            if replacement is not None:
                splice.replace(replacement, inputs, node["name"] if keeps_names else None)
                continue
        if node["op"] in _CONSTANTS:
            node["attrs"]["shape"] = str(describe((number, 0))[0])
        splice.add({**node, "inputs": inputs})
    return splice.symbol(graph)


class Splice:
    """Copy a graph in MXNet's JSON, node by node, and replace some nodes.

    An *entry* is an output of a node: [number of the node, number of the output, 0].
    """

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self._find_new_entry: list[Callable[[int], list[int]]] = []  # [old node](output number) -> new entry

    def entry(self, old_entry: Sequence[int]) -> list[int]:
        """Return the new graph's entry for an entry of the old graph."""
        return self._find_new_entry[old_entry[0]](old_entry[1])

    def add(self, node: dict[str, Any]) -> None:
        """Copy the next node of the old graph."""
        self._find_new_entry.append(_entries_of(len(self.nodes)))
        self.nodes.append(node)

    def replace(self, symbol: Any, inputs: Sequence[list[int]], name: str | None = None) -> None:
        """Insert `symbol` (an MXNet graph) in place of the next node of the old graph.

        Variables "0", "1", ... of `symbol` become `inputs`. If `symbol` has a single output, `name` becomes its name.
        """
        symbol_graph = json.loads(symbol.tojson())
        find_entry: list[Callable[[int], list[int]]] = []  # [node of `symbol`](output number) -> new entry
        for node in symbol_graph["nodes"]:
            if node["op"] == "null":
                find_entry.append([inputs[int(node["name"])]].__getitem__)
                continue
            find_entry.append(_entries_of(len(self.nodes)))
            self.nodes.append({**node, "inputs": [find_entry[number](n) for number, n, *_ in node["inputs"]]})
        outputs = [find_entry[number](n) for number, n, *_ in symbol_graph["heads"]]
        if name is not None and len(outputs) == 1:
            self.nodes[outputs[0][0]]["name"] = name
        self._find_new_entry.append(outputs.__getitem__)

    def symbol(self, graph: Mapping[str, Any]) -> Any:
        """Return the new graph as an MXNet symbol. `graph` is the old graph."""
        variables = [n for n, node in enumerate(self.nodes) if node["op"] == "null"]
        pointers = list(range(len(self.nodes) + 1))
        new_graph = {
            "nodes": self.nodes,
            "arg_nodes": variables,
            "node_row_ptr": pointers,
            "heads": [self.entry(head) for head in graph["heads"]],
            "attrs": graph["attrs"],
        }
        return mx.sym.load_json(json.dumps(new_graph))


def _entries_of(number: int) -> Callable[[int], list[int]]:
    return lambda output: [number, output, 0]
