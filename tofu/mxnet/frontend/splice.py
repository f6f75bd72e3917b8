"""Replacement of operators by symbols in MXNet's JSON of a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx


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

    def replace(self, symbol: Any, inputs: Sequence[list[int]]) -> None:
        """Replace the next node by a symbol, whose variables "0", "1", ... stand for the node's inputs."""
        own = json.loads(symbol.tojson())
        place: list[list[int]] = []
        for node in own["nodes"]:
            if node["op"] == "null":
                place.append(inputs[int(node["name"])])
                continue
            place.append([len(self.nodes), -1, 0])
            self.nodes.append({**node, "inputs": [_move(place, entry) for entry in node["inputs"]]})
        self.outputs.append([_move(place, head) for head in own["heads"]])

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
