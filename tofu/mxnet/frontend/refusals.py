"""What no plan can be made of: control flow, shapes that depend on numbers, operators that talk to other devices.

Found before anything is inferred, all of one kind named at once. What MXNet's kernels get wrong in some types is found in the graph.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import prod
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.errors import TofuError, UnsupportedError, raise_together
from tofu.graph.semantic import Graph, Operator

CONTROL_FLOW = {"_foreach": "foreach", "_while_loop": "while_loop", "_cond": "cond"}
SPARSE_OPERATORS = {"_sparse_retain": "Multiply by a mask of the rows."}
DATA_DEPENDENT = {
    "_contrib_boolean_mask": "Multiply by the mask, or use where.",
    "_npi_unique": "Leave it to the host.",
    "_npx_nonzero": "Use a mask, or where.",
}
FIXING = ("BatchNorm", "BatchNorm_v1")
RESHAPES = ("Reshape", "_np_reshape", "_npx_reshape")
SYNCHRONIZED = {
    "_contrib_SyncBatchNorm": "Use BatchNorm: its statistics are those of the whole batch, on all workers.",
}


def refuse_broken(symbol: Any) -> None:
    """Raise TofuError for a symbol with edges to nothing, which MXNet loads from a damaged file and fails on later."""
    try:
        _mxnet.check_edges(symbol.handle.value)
    except RuntimeError as error:
        raise TofuError(f"The symbol is broken: {error}. Load it anew from a file that is whole.") from error


def refuse_unpartitionable(symbol: Any) -> None:
    """Raise UnsupportedError for a forward symbol with any of them, with the way out for each."""
    nodes = _mxnet.nodes(symbol.handle.value)
    raise_together(
        UnsupportedError,
        "Workers compute with dense storage. These operators are for sparse tensors alone:",
        [f"{_name(node)}. {SPARSE_OPERATORS[node['op']]}" for node in nodes if node["op"] in SPARSE_OPERATORS],
    )
    raise_together(
        UnsupportedError,
        "Control flow cannot be partitioned, since it runs a graph of its own that no description can see:",
        [
            f"{_name(node)}: contrib.{CONTROL_FLOW[node['op']]}. Write its steps into the model, as cell.unroll(...) does."
            for node in nodes
            if node["op"] in CONTROL_FLOW
        ],
    )
    for reason, ways_out in (
        (
            "How much these operators give depends on the numbers that they read, which no plan can know:",
            DATA_DEPENDENT,
        ),
        ("These operators exchange numbers with those of other devices by themselves:", SYNCHRONIZED),
    ):
        found = [f"{_name(node)}. {ways_out[node['op']]}" for node in nodes if node["op"] in ways_out]
        raise_together(UnsupportedError, reason, found)


def refuse_wrong_kernels(graph: Graph) -> None:
    """Raise UnsupportedError for operators whose own kernel gives wrong numbers on one device, and others wherever it is split."""
    _refuse_other_sizes(graph)
    _refuse_shared_scales(graph)
    has_onednn = os.environ.get("MXNET_MKLDNN_ENABLED", "1") != "0"
    found = [
        f"{operator}, stride {operator.attributes['stride']}, dilate {operator.attributes['dilate']}, {dtype}"
        for operator in graph.operators
        if operator.op == "Deconvolution"
        and ((dtype := graph.tensors[operator.outputs[0]].dtype) != "float32" or not has_onednn)
        and min(_largest(operator.attributes, "stride"), _largest(operator.attributes, "dilate")) > 1
    ]
    raise_together(
        UnsupportedError,
        "MXNet's own Deconvolution is wrong on CPUs where both stride and dilate are above 1, in all types but oneDNN's float32. "
        "Use float32 (and leave MXNET_MKLDNN_ENABLED out), or one of the two for:",
        found,
    )


def refuse_outputs_without_dimensions(graph: Graph) -> None:
    """Raise UnsupportedError for outputs of shape () where MXNet takes that for a shape that it does not know."""
    outputs = [] if mx.util.is_np_shape() else [graph.tensors[position] for position in graph.outputs]
    raise_together(
        UnsupportedError,
        "These outputs have the shape (), which MXNet takes for an unknown shape where NumPy's shapes are off. Call mx.npx.set_np() or "
        "mx.util.set_np_shape(True) before all else, or reshape to (1,):",
        [tensor.name for tensor in outputs if not tensor.shape],
    )


def _refuse_shared_scales(graph: Graph) -> None:
    """A BatchNorm with a fixed scale sets it to ones while it runs. MXNet takes that for reading, so that it runs others that read it
    before, after or meanwhile.
    """
    fixed = {number for number, operator in enumerate(graph.operators) if _sets_scale(operator)}
    setting = {graph.operators[number].inputs[1]: graph.operators[number] for number in fixed}
    raise_together(
        UnsupportedError,
        "These read what a BatchNorm sets to ones while it runs, which is before or after them, as it happens. Write fix_gamma=False, or "
        "give the BatchNorm a gamma of its own:",
        [
            f"{operator} reads {graph.tensors[tensor].name}, the gamma of {setting[tensor].name}"
            for number, operator in enumerate(graph.operators)
            for tensor in dict.fromkeys(operator.inputs)
            if tensor in setting and number not in fixed and operator.forward is None
        ],
    )


def _sets_scale(operator: Operator) -> bool:
    return operator.op in FIXING and operator.attributes.get("fix_gamma", "True") in ("True", "1")


def _refuse_other_sizes(graph: Graph) -> None:
    """MXNet rounds a size of -1 that does not come out even, and then reads and writes outside of the tensors."""
    shapes = [tensor.shape for tensor in graph.tensors]
    raise_together(
        UnsupportedError,
        "MXNet gives these another number of cells than they read, since the sizes do not come out even. Mend shape= or the inputs of:",
        [
            f"{operator}: {shapes[operator.inputs[0]]} becomes {shapes[operator.outputs[0]]}"
            for operator in graph.operators
            if operator.op in RESHAPES and prod(shapes[operator.inputs[0]]) != prod(shapes[operator.outputs[0]])
        ],
    )


def _largest(attributes: Mapping[str, str], name: str) -> int:
    """The largest number in an attribute such as "(2, 1)"; 1 where it is not given."""
    return max(map(int, re.findall(r"\d+", attributes.get(name, ""))), default=1)


def _name(node: Mapping[str, Any]) -> str:
    return f"variable {node['name']}" if node["op"] == "null" else f"{node['op']} {node['name']}"
