"""A symbol changed for a comparison: in double precision, and without what every worker draws for itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import mxnet as mx

from tofu.mxnet.verify.declarations import list_declarations

WIDE, WIDE_CODE = "float64", "1"
NARROW = ("float32", "float16")
NARROW_CODES = ("0", "2")
MOST_READERS = 7
DRAWING = ("_random_", "_sample_")
"""What operators begin with that draw in float32 where they are told no type."""
DROPOUT = {"Dropout": 0.5, "RNN": 0.0}
"""Operators that drop cells at random, and with which probability where nothing is said."""

Change = Callable[[str, dict[str, str]], dict[str, str]]


def widen_types(symbol: Any) -> Any:
    """The symbol with float64 wherever it names a narrower floating type, or an operator would take float32 by itself."""

    def widen(op: str, attributes: dict[str, str]) -> dict[str, str]:
        if op == "null":
            narrow = attributes.get("__dtype__") in NARROW_CODES
            return attributes | ({"__dtype__": WIDE_CODE} if narrow else {})
        dtype = attributes.get("dtype", _default_dtype(op))
        takes_float32 = dtype in NARROW or (dtype == "None" and op.startswith(DRAWING))
        return attributes | ({"dtype": WIDE} if takes_float32 else {})

    return _rewrite(symbol, widen)[0]


def without_dropout(symbol: Any) -> tuple[Any, tuple[str, ...]]:
    """The symbol in which nothing is dropped, and the names of the nodes that would have done so."""

    def keep(op: str, attributes: dict[str, str]) -> dict[str, str]:
        is_dropping = op in DROPOUT and float(attributes.get("p", DROPOUT[op])) > 0
        return attributes | ({"p": "0"} if is_dropping else {})

    return _rewrite(symbol, keep)


def split_readers(symbol: Any) -> Any:
    """The symbol in which nothing has eight readers or more: they read copies, seven of them each.

    MXNet adds the gradients of eight and more readers in place, which some of its kernels get wrong. The copies
    differ in an attribute, else MXNet would find them equal and make them one.
    """
    model = json.loads(symbol.tojson())
    nodes, states = model["nodes"], set(symbol.list_auxiliary_states())
    readers: dict[tuple[int, int], list[list[int]]] = {}
    for node in nodes:
        for entry in node["inputs"]:
            if nodes[entry[0]]["name"] not in states:
                readers.setdefault((entry[0], entry[1]), []).append(entry)
    for (source, index), entries in readers.items():
        for first in range(0, len(entries), MOST_READERS) if len(entries) > MOST_READERS else ():
            name = f"{nodes[source]['name']}/copy{index}_{first}"
            nodes.append(
                {"op": "_copy", "name": name, "attrs": {"__reader__": str(first)}, "inputs": [[source, index, 0]]}
            )
            for entry in entries[first : first + MOST_READERS]:
                entry[:2] = len(nodes) - 1, 0
    return mx.sym.load_json(json.dumps(model))


def _rewrite(symbol: Any, change: Change) -> tuple[Any, tuple[str, ...]]:
    """The symbol with other attributes, and the names of the nodes that changed."""
    model, changed = json.loads(symbol.tojson()), []
    for node in model["nodes"]:
        before = node.get("attrs", {})
        node["attrs"] = change(node["op"], dict(before))
        changed += [node["name"]] if node["attrs"] != before else []
    return mx.sym.load_json(json.dumps(model)), tuple(changed)


@cache
def _default_dtype(op: str) -> str:
    """The type that an operator takes where its attribute `dtype` is not given; empty where it has none."""
    declared = dict(list_declarations(op)).get("dtype", "")
    found = re.search(r"default='?(\w+)", declared)
    return found[1] if found else ""
