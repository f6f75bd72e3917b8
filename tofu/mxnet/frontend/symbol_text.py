"""Checks of a model's JSON before MXNet reads it.

MXNet's own errors do not name the mistake, and MXNet accepts cycles and missing outputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mxnet as mx

from tofu.mxnet.frontend.storage import with_dense_storage
from tofu.validation import is_integer, parse_json, read_integer, read_list, read_mapping, read_string, show

GROUP_KEY = "__ctx_group__"
ATTRIBUTE_KEYS = ("attrs", "attr", "param")  # keys of attributes in JSON; only old versions of MXNet wrote the last two
PYTHON_BOOLEANS = {"true": "True", "false": "False"}


def in_plain_form(symbol: Any) -> Any:
    """Return the model without sparse storage or `ctx_group`. Write booleans as True and False.

    `ctx_group` assigns operators to devices by hand. In Tofu, the plan does this.
    """
    symbol = with_dense_storage(symbol)
    if not any(_simplify_attributes(attributes) != attributes for attributes in symbol.attr_dict().values()):
        return symbol
    graph = json.loads(mx.sym.Symbol.tojson(symbol, remove_amp_cast=False))
    for node in graph["nodes"]:
        if "attrs" in node:
            node["attrs"] = _simplify_attributes(node["attrs"], is_free_text=node["op"] == "Custom")
    return mx.sym.load_json(json.dumps(graph))


def _simplify_attributes(attributes: Mapping[str, str], is_free_text: bool = False) -> dict[str, str]:
    return {
        key: value if is_free_text or key.startswith("__") else PYTHON_BOOLEANS.get(value.lower(), value)
        for key, value in attributes.items()
        if key != GROUP_KEY
    }


def read_model(text: str) -> dict[str, Any]:
    """Parse the JSON of a model. Raise ValueError for the first mistake."""
    model = parse_json(text)
    if not isinstance(model, dict):
        raise ValueError(f"it is {show(model)}, not an object with nodes")
    nodes = model.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise ValueError("it has no nodes")
    for position, node in enumerate(nodes):
        _check_node(node, position)
    read_list(model.get("heads", []), "heads", lambda head, title: _check_entry(head, title, len(nodes)))
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
    inputs = read_list(
        node.get("inputs"), f"an input of {title}", lambda entry, title: _check_entry(entry, title, position)
    )
    if op == "null" and inputs:
        raise ValueError(f"{title} is a variable and has inputs")
    dependencies = node.get("control_deps", [])
    read_list(dependencies, f"a dependency of {title}", lambda n, title: read_integer(n, title, 0, position - 1))
    for key in ATTRIBUTE_KEYS:
        read_mapping(node.get(key, {}), f"{key} of {title}", read_string)


def _check_entry(entry: Any, title: str, node_count: int) -> None:
    if not isinstance(entry, list) or not 2 <= len(entry) <= 3 or not all(map(is_integer, entry)):
        raise ValueError(f"{title} is {show(entry)}, not the numbers of a node and of its output")
    read_integer(entry[0], f"the node of {title}", 0, node_count - 1)
    read_integer(entry[1], f"the output of {title}", 0, 2**31 - 1)
