"""Convert models with sparse storage (row_sparse, csr) to dense storage, which leads to the same results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import mxnet as mx

from tdl_ops.mxnet.attributes import is_true
from tofu.mxnet.frontend.splice import Splice

STORAGE_KEY = "__storage_type__"
STORAGES = {"1": "row_sparse", "2": "csr"}
"""Names of sparse storage, by the value of a variable's attribute."""
SPARSE_ATTRIBUTES = ("sparse_grad", "forward_stype")
"""Attributes by which an operator requests sparse gradients or results."""
DENSE = "default"


def _sum_squares(attributes: Mapping[str, str], name: str) -> Any:
    return mx.sym.sum(mx.sym.square(mx.sym.Variable("0"), name=f"{name}_square"), name=name, **attributes)


def _embed(attributes: Mapping[str, str], name: str) -> Any:
    dense_attributes = {key: value for key, value in attributes.items() if key != "deterministic"}
    return mx.sym.Embedding(mx.sym.Variable("0"), mx.sym.Variable("1"), name=name, **dense_attributes)


DENSE_FORMS: dict[str, Callable[[Mapping[str, str], str], Any]] = {
    "_contrib_SparseEmbedding": _embed,
    "_square_sum": _sum_squares,
    "cast_storage": lambda attributes, name: mx.sym.identity(mx.sym.Variable("0"), name=name),
}
"""For each operator on sparse tensors, a function of its attributes and name that returns a symbol on dense tensors."""


def list_storages(symbol: Any) -> dict[str, str]:
    """Return the storage of each sparse variable, such as {"weight": "row_sparse", "data": "csr"}."""
    codes = {name: attributes.get(STORAGE_KEY, "") for name, attributes in symbol.attr_dict().items()}
    return {name: STORAGES[code] for name, code in codes.items() if code in STORAGES}


def has_sparse_storage(symbol: Any) -> bool:
    """Return True if the model has sparse variables or operators."""
    return any(map(_is_sparse, _read_graph(symbol)["nodes"]))


def with_dense_storage(symbol: Any) -> Any:
    """Return the same model with dense tensors."""
    graph = _read_graph(symbol)
    if not any(map(_is_sparse, graph["nodes"])):
        return symbol
    splice = Splice()
    for node in graph["nodes"]:
        inputs = [splice.entry(entry) for entry in node["inputs"]]
        attributes = node.get("attrs", {})
        if node["op"] in DENSE_FORMS:
            operator_attributes = {key: value for key, value in attributes.items() if not key.startswith("__")}
            splice.replace(DENSE_FORMS[node["op"]](operator_attributes, node["name"]), inputs)
            continue
        dense = {key: value for key, value in attributes.items() if key not in (STORAGE_KEY, *SPARSE_ATTRIBUTES)}
        splice.add({**node, "attrs": dense, "inputs": inputs})
    return splice.symbol(graph)


def _read_graph(symbol: Any) -> dict[str, Any]:
    text = mx.sym.Symbol.tojson(symbol, remove_amp_cast=False)
    mentions_sparse = any(word in text for word in (STORAGE_KEY, *SPARSE_ATTRIBUTES, *DENSE_FORMS))
    graph: dict[str, Any] = json.loads(text) if mentions_sparse else {"nodes": []}  # parsing would take time
    return graph


def _is_sparse(node: Mapping[str, Any]) -> bool:
    attributes = node.get("attrs", {})
    return (
        node["op"] in DENSE_FORMS
        or attributes.get(STORAGE_KEY) in STORAGES
        or attributes.get("forward_stype", DENSE) != DENSE
        or (node["op"] != "null" and is_true(attributes, "sparse_grad"))
    )
