"""MXNet's JSON of a symbol, checked before MXNet reads it: its own reader names neither the place nor the rule, and takes nodes that
read each other, or outputs that are not there.
"""

from __future__ import annotations

import json
from typing import Any

import mxnet as mx

from tofu.reading import is_whole, parse_json, read_list, read_mapping, read_string, read_whole, show

GROUP_KEY = "__ctx_group__"
ATTRIBUTES = ("attrs", "attr", "param")  # of a node; the last two are those of older versions of MXNet


def without_groups(symbol: Any) -> Any:
    """The same model without `ctx_group`: the plan says where operators run."""
    if not any(GROUP_KEY in attributes for attributes in symbol.attr_dict().values()):
        return symbol
    graph = json.loads(mx.sym.Symbol.tojson(symbol, remove_amp_cast=False))
    for node in graph["nodes"]:
        node.get("attrs", {}).pop(GROUP_KEY, None)
    return mx.sym.load_json(json.dumps(graph))


def read_model(text: str) -> dict[str, Any]:
    """The JSON of a symbol. Raises ValueError that says which node is wrong, and how."""
    model = parse_json(text)
    if not isinstance(model, dict):
        raise ValueError(f"it is {show(model)}, not an object with nodes")
    nodes = model.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise ValueError("it has no nodes")
    for position, node in enumerate(nodes):
        _check_node(node, position)
    read_list(model.get("heads", []), "heads", lambda head, what: _check_entry(head, what, len(nodes)))
    variables = [position for position, node in enumerate(nodes) if node["op"] == "null"]
    if model.get("arg_nodes", variables) != variables:
        raise ValueError(f"arg_nodes is {show(model['arg_nodes'])}, and the variables are the nodes {show(variables)}")
    return model


def _check_node(node: Any, position: int) -> None:
    if not isinstance(node, dict):
        raise ValueError(f"node {position} is {show(node)}, not an object")
    name = read_string(node.get("name"), f"the name of node {position}")
    title = f"node {position} ({show(name)})"
    op = read_string(node.get("op"), f"the op of {title}")
    inputs = read_list(node.get("inputs"), f"an input of {title}", lambda e, what: _check_entry(e, what, position))
    if op == "null" and inputs:
        raise ValueError(f"{title} is a variable and has inputs")
    dependencies = node.get("control_deps", [])
    read_list(dependencies, f"a dependency of {title}", lambda n, what: read_whole(n, what, 0, position - 1))
    for kind in ATTRIBUTES:
        read_mapping(node.get(kind, {}), f"{kind} of {title}", read_string)


def _check_entry(entry: Any, what: str, nodes: int) -> None:
    """[node, output] or [node, output, version], of one of the first `nodes`."""
    if not isinstance(entry, list) or not 2 <= len(entry) <= 3 or not all(map(is_whole, entry)):
        raise ValueError(f"{what} is {show(entry)}, not the numbers of a node and of its output")
    read_whole(entry[0], f"the node of {what}", 0, nodes - 1)
    read_whole(entry[1], f"the output of {what}", 0, 2**31 - 1)
