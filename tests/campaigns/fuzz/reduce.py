"""Smaller samples made of one: fewer outputs and operators, smaller sizes, fewer gradients. Whether they still fail is not asked here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

import mxnet as mx
import numpy as np

from tests.campaigns.fuzz.sample import Sample, draw_heads, infer
from tofu.errors import TofuError
from tofu.mxnet.frontend.inference import dtype_code

Entry = tuple[int, int]
REFUSALS = (mx.MXNetError, TofuError, ValueError, KeyError, IndexError)


def reduce_sample(sample: Sample) -> Iterator[Sample]:
    """Samples that are one step smaller, the boldest steps first. What MXNet does not take is left out."""
    for edited in chain(_drop_heads(sample), _raise_heads(sample), _cut(sample), _bypass(sample)):
        made = _rebuild(sample, *edited)
        if made is not None:
            yield made
    yield from _simplify_requests(sample)
    yield from _shrink_extents(sample)


def _drop_heads(sample: Sample) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    graph = json.loads(sample.symbol.tojson())
    heads = graph["heads"]
    chunks = [range(len(heads) // 2), range(len(heads) // 2, len(heads))] if len(heads) > 3 else []
    for gone in [*chunks, *([n] for n in range(len(heads)))]:
        kept = [head for n, head in enumerate(heads) if n not in gone]
        if kept:
            yield {**deepcopy(graph), "heads": kept}, {}


def _raise_heads(sample: Sample) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """In place of an output, what it is computed of."""
    graph = json.loads(sample.symbol.tojson())
    for n, (node, *_) in enumerate(graph["heads"]):
        inner = [entry for entry in graph["nodes"][node]["inputs"] if graph["nodes"][entry[0]]["op"] != "null"]
        for chosen in ([inner], *([[one]] for one in inner)) if len(inner) > 1 else ([inner],):
            if chosen[0] and len(inner) > 0:
                heads = [*graph["heads"][:n], *chosen[0], *graph["heads"][n + 1 :]]
                yield {**deepcopy(graph), "heads": heads}, {}


def _cut(sample: Sample) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """In place of an operator's outputs, variables with the same numbers."""
    graph = json.loads(sample.symbol.tojson())
    values = _compute_inner(sample)
    for position in reversed(range(len(graph["nodes"]))):
        node = graph["nodes"][position]
        entries = sorted({e[1] for other in graph["nodes"] for e in other["inputs"] if e[0] == position})
        if node["op"] == "null" or not entries or any((position, entry) not in values for entry in entries):
            continue
        edited, given = deepcopy(graph), {}
        for entry in entries:
            value = values[position, entry]
            name = f"{node['name']}_cut{entry}"
            given[name] = value
            attributes = {"__shape__": str(tuple(value.shape)), "__dtype__": str(dtype_code(value.dtype))}
            edited["nodes"].append({"op": "null", "name": name, "attrs": attributes, "inputs": []})
            _redirect(edited, (position, entry), (len(edited["nodes"]) - 1, 0))
        yield edited, given


def _bypass(sample: Sample) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """In place of an operator's output, an input of the same shape."""
    graph = json.loads(sample.symbol.tojson())
    values = _compute_inner(sample)
    for position, node in enumerate(graph["nodes"]):
        if node["op"] == "null" or (position, 0) not in values:
            continue
        for source, output, *_ in node["inputs"]:
            there = values.get((source, output))
            if there is not None and there.shape == values[position, 0].shape:
                edited = deepcopy(graph)
                _redirect(edited, (position, 0), (source, output))
                yield edited, {}
                break


def _redirect(graph: dict[str, Any], old: Entry, new: Entry) -> None:
    for node in graph["nodes"]:
        node["inputs"] = [[*new, 0] if tuple(entry[:2]) == old else entry for entry in node["inputs"]]
    graph["heads"] = [[*new, 0] if tuple(head[:2]) == old else head for head in graph["heads"]]


def _compute_inner(sample: Sample) -> dict[Entry, np.ndarray]:
    """All tensors of the forward pass by node and output, as on one device."""
    inner = sample.symbol.get_internals()
    graph = json.loads(inner.tojson())
    own = {node["name"]: position for position, node in enumerate(json.loads(sample.symbol.tojson())["nodes"])}
    arguments, states = (
        {name: mx.nd.array(sample.values[name], dtype=sample.values[name].dtype) for name in names}
        for names in (inner.list_arguments(), inner.list_auxiliary_states())
    )
    outputs = inner.bind(mx.cpu(), arguments, aux_states=states, grad_req="null").forward(is_train=True)
    entries = [(own[graph["nodes"][node]["name"]], output) for node, output, *_ in graph["heads"]]
    return {entry: output.asnumpy() for entry, output in zip(entries, outputs, strict=True)}


def _rebuild(sample: Sample, graph: dict[str, Any], given: Mapping[str, np.ndarray]) -> Sample | None:
    """The sample of an edited graph: nodes that no output takes are gone, the others in order; None where MXNet refuses it."""
    nodes, order, seen = graph["nodes"], [], set()

    def visit(position: int) -> None:
        if position not in seen:
            seen.add(position)
            for source, *_ in nodes[position]["inputs"]:
                visit(source)
            order.append(position)

    for head in graph["heads"]:
        visit(head[0])
    place = {position: n for n, position in enumerate(order)}
    made = {
        "nodes": [{**nodes[p], "inputs": [[place[e[0]], *e[1:]] for e in nodes[p]["inputs"]]} for p in order],
        "arg_nodes": [n for n, p in enumerate(order) if nodes[p]["op"] == "null"],
        "node_row_ptr": list(range(len(order) + 1)),
        "heads": [[place[head[0]], *head[1:]] for head in graph["heads"]],
        "attrs": graph["attrs"],
    }
    if all(nodes[head[0]]["op"] == "null" for head in graph["heads"]):
        return None
    try:
        return _with_symbol(sample, mx.sym.load_json(json.dumps(made)), {**sample.values, **given})
    except REFUSALS:
        return None


def _with_symbol(sample: Sample, symbol: mx.sym.Symbol, values: Mapping[str, np.ndarray]) -> Sample:
    """The sample with another symbol: of its values what is needed, cut to the shapes that are; new head gradients."""
    names = symbol.list_arguments()
    shapes = {name: tuple(values[name].shape) for name in sample.shapes if name in names}
    if len(set(names)) < len(names):
        raise ValueError("Two variables of one name.")
    found = infer(symbol, shapes)
    rng = np.random.RandomState(0)
    heads = draw_heads(symbol, shapes, lambda shape: rng.randint(1, 9, shape) / 8.0 * rng.choice((-1, 1), shape))
    kept = {name: values[name][tuple(slice(extent) for extent in shape)] for name, shape in found.items()}
    if any(kept[name].shape != shape for name, shape in found.items()):
        raise ValueError("A value is too small.")
    requests = {
        name: sample.requests.get(name, "null")
        for name in names
        if name in sample.requests or name not in sample.values
    }
    return Sample(symbol, shapes, kept, requests, heads, sample.tolerance, sample.relations)


def _shrink_extents(sample: Sample) -> Iterator[Sample]:
    """Every extent of the variables made smaller wherever it stands, in attributes too."""
    extents = sorted({extent for value in sample.values.values() for extent in value.shape if extent > 1}, reverse=True)
    for extent in extents:
        for smaller in dict.fromkeys((1, 2, extent // 2, extent - 1)):
            if 0 < smaller < extent:
                made = _with_extent(sample, extent, smaller)
                if made is not None:
                    yield made


def _with_extent(sample: Sample, old: int, new: int) -> Sample | None:
    graph = json.loads(sample.symbol.tojson())
    for node in graph["nodes"]:
        node["attrs"] = {
            name: re.sub(rf"(?<![\d.-]){old}(?![\d.])", str(new), text) if name != "__dtype__" else text
            for name, text in node.get("attrs", {}).items()
        }
    values = {}
    for name, value in sample.values.items():
        cut = value[tuple(slice(new if extent == old else extent) for extent in value.shape)]
        is_index = name.startswith("label") or (name.startswith("given") and np.array_equal(cut, np.round(cut)))
        values[name] = (
            np.minimum(cut, new - 1).astype(cut.dtype) if is_index and cut.size and cut.max() >= new > 0 else cut
        )
    try:
        return _with_symbol(sample, mx.sym.load_json(json.dumps(graph)), values)
    except REFUSALS:
        return None


def _simplify_requests(sample: Sample) -> Iterator[Sample]:
    asked = [name for name, request in sample.requests.items() if request != "null"]
    for name in asked if len(asked) > 1 else ():
        yield replace(sample, requests={other: "write" if other == name else "null" for other in sample.requests})
    for simpler, kinds in (("null", ("write", "add")), ("write", ("add",))):
        for name, request in sample.requests.items():
            if request in kinds:
                yield replace(sample, requests={**sample.requests, name: simpler})
