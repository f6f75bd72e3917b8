"""Errors for models that cannot be split, or that MXNet itself computes wrong.

Each error lists all operators to change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import prod
from typing import Any

import mxnet as mx

from tdl_ops.mxnet.attributes import is_true
from tofu import _mxnet
from tofu.errors import TofuError, UnsupportedError, raise_together
from tofu.graph.semantic import Graph, Operator, TensorKind

UNSUPPORTED: Mapping[str, Mapping[str, str]] = {
    "Workers compute with dense storage. These operators only support sparse tensors:": {
        "_sparse_retain": ". Multiply by a mask of the rows."
    },
    "Control flow cannot be partitioned, since its inner graph has no description:": {
        f"_{name}": f": contrib.{name}. Unroll its steps in the model, as cell.unroll(...) does."
        for name in ("foreach", "while_loop", "cond")
    },
    "The output shapes of these operators depend on their inputs' values, which no plan can know:": {
        "_contrib_boolean_mask": ". Multiply by the mask, or use where.",
        "_npi_unique": ". Leave it to the host.",
        "_npx_nonzero": ". Use a mask, or where.",
    },
    "These operators communicate with other devices themselves:": {
        "_contrib_SyncBatchNorm": ". Use BatchNorm: its statistics cover the whole batch, on all workers.",
    },
}
"""Operators that cannot be split, each with the advice that error messages contain."""
RESHAPES = ("Reshape", "_np_reshape", "_npx_reshape")


def refuse_broken(symbol: Any) -> None:
    """Raise TofuError if an operator's input does not exist in the model graph, as in a damaged file."""
    try:
        _mxnet.check_edges(symbol.handle.value)
    except RuntimeError as error:
        raise TofuError(f"The symbol is broken: {error}. Load it from an undamaged file.") from error


def refuse_unpartitionable(symbol: Any) -> None:
    """Raise UnsupportedError, with advice, if an operator cannot be split."""
    nodes = _mxnet.nodes(symbol.handle.value)
    for reason, advice in UNSUPPORTED.items():
        refused = [f"{node['op']} {node['name']}{advice[node['op']]}" for node in nodes if node["op"] in advice]
        raise_together(UnsupportedError, reason, refused)


def refuse_wrong_kernels(graph: Graph) -> None:
    """Raise UnsupportedError for operators that MXNet computes wrong even on one device."""
    _refuse_fractional_reshapes(graph)
    _refuse_shared_gammas(graph)
    _refuse_shared_statistics(graph)
    has_onednn = os.environ.get("MXNET_MKLDNN_ENABLED", "1") != "0"
    wrong = [
        f"{operator}, stride {operator.attributes['stride']}, dilate {operator.attributes['dilate']}, {dtype}"
        for operator in graph.operators
        if operator.op == "Deconvolution"
        and ((dtype := graph.tensors[operator.outputs[0]].dtype) != "float32" or not has_onednn)
        and min(_find_largest(operator.attributes, "stride"), _find_largest(operator.attributes, "dilate")) > 1
    ]
    raise_together(
        UnsupportedError,
        "MXNet's own Deconvolution is wrong on CPUs if both stride and dilate are above 1, in all types but oneDNN's float32. "
        "Use float32 (without MXNET_MKLDNN_ENABLED), or only one of stride and dilate, for:",
        wrong,
    )


def refuse_outputs_without_dimensions(graph: Graph) -> None:
    """Raise UnsupportedError for outputs of shape (). In MXNet, this shape means unknown."""
    outputs = [] if mx.util.is_np_shape() else [graph.tensors[position] for position in graph.outputs]
    raise_together(
        UnsupportedError,
        "These outputs have the shape (), which means unknown in MXNet unless NumPy's shapes are on. Call mx.npx.set_np() or "
        "mx.util.set_np_shape(True) first, or reshape them to (1,):",
        [tensor.name for tensor in outputs if not tensor.shape],
    )


def _refuse_shared_gammas(graph: Graph) -> None:
    # BatchNorm with fix_gamma sets gamma to ones, before or after other operators read it.
    setters = {number for number, operator in enumerate(graph.operators) if _sets_gamma(operator)}
    setter_by_gamma = {graph.operators[number].inputs[1]: graph.operators[number] for number in setters}
    raise_together(
        UnsupportedError,
        "These operators read a gamma that a BatchNorm sets to ones, before or after them in arbitrary order. Use fix_gamma=False, or "
        "another gamma for the BatchNorm:",
        [
            f"{operator} reads {graph.tensors[tensor].name}, the gamma of {setter_by_gamma[tensor].name}"
            for number, operator in enumerate(graph.operators)
            for tensor in dict.fromkeys(operator.inputs)
            if tensor in setter_by_gamma and number not in setters and operator.forward is None
        ],
    )


def _sets_gamma(operator: Operator) -> bool:
    return operator.op in ("BatchNorm", "BatchNorm_v1") and is_true(operator.attributes, "fix_gamma", True)


def _refuse_shared_statistics(graph: Graph) -> None:
    # MXNet's engine takes the change of a moving statistic for a read. So only data can order it with other reads.
    if all(operator.forward is None for operator in graph.operators):
        return  # only gradients change statistics
    reads: list[tuple[int, int]] = []
    changers_by_statistic: dict[int, list[int]] = {}
    for number, operator in enumerate(graph.operators):
        for slot, tensor in enumerate(operator.inputs):
            if graph.tensors[tensor].kind is not TensorKind.AUXILIARY:
                continue
            if slot not in operator.mutates or _reads_statistics(operator):
                reads.append((number, tensor))
            elif not is_true(operator.attributes, "use_global_stats"):
                changers_by_statistic.setdefault(tensor, []).append(number)
    producers = {tensor: number for number, operator in enumerate(graph.operators) for tensor in operator.outputs}
    refused: dict[str, None] = {}
    for reader, tensor in reads:
        for changer in changers_by_statistic.get(tensor, ()):
            if not _depends_on(graph, producers, *sorted((reader, changer))):
                read, changed = (_find_model_operator(graph, number) for number in (reader, changer))
                refused[f"{read} reads {graph.tensors[tensor].name}, a statistic that {changed} changes"] = None
    raise_together(
        UnsupportedError,
        "These operators read moving statistics that a BatchNorm changes, before or after them in arbitrary order. Use a separate "
        "variable for one of the two:",
        list(refused),
    )


def _reads_statistics(operator: Operator) -> bool:
    return operator.op == "_backward_BatchNorm" and is_true(operator.attributes, "use_global_stats")


def _depends_on(graph: Graph, producers: Mapping[int, int], earlier: int, later: int) -> bool:
    visited, unvisited = {later}, [later]
    while unvisited:
        found = {producers[t] for t in graph.operators[unvisited.pop()].inputs if t in producers}
        new = {number for number in found if number >= earlier} - visited
        visited |= new
        unvisited += new
    return earlier in visited


def _find_model_operator(graph: Graph, number: int) -> Operator:
    forward = graph.operators[number].forward
    return graph.operators[number if forward is None else forward]


def _refuse_fractional_reshapes(graph: Graph) -> None:
    shapes = [tensor.shape for tensor in graph.tensors]
    raise_together(
        UnsupportedError,
        "The outputs of these operators have another number of elements than their inputs, since a size of -1 is no integer. Fix shape= "
        "or the inputs of:",
        [
            f"{operator}: {shapes[operator.inputs[0]]} becomes {shapes[operator.outputs[0]]}"
            for operator in graph.operators
            if operator.op in RESHAPES and prod(shapes[operator.inputs[0]]) != prod(shapes[operator.outputs[0]])
        ],
    )


def _find_largest(attributes: Mapping[str, str], name: str) -> int:
    return max(map(int, re.findall(r"\d+", attributes.get(name, ""))), default=1)
