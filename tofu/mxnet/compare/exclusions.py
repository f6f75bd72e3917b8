"""Find tensors that cannot be compared: they depend on random numbers, or MXNet computes them wrong on one device."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.attributes import is_true
from tofu import _mxnet
from tofu.analysis import OperatorAccess
from tofu.graph import Graph, Operator
from tofu.mxnet.frontend.randomness import DROP_PROBABILITIES, draws
from tofu.mxnet.frontend.recurrent_layers import ONEDNN_RECURRENCE
from tofu.mxnet.lowerings.completion import UNWRITTEN_SUFFIX

Reasons = dict[int, str]
"""Number of a tensor -> reason why the tensor cannot be compared."""


def find_random(graph: Graph, accesses: Sequence[OperatorAccess]) -> Reasons:
    """Return the tensors that depend on random numbers, with reasons. They differ between two runs."""
    drawn: Reasons = {}
    for operator, access in zip(graph.operators, accesses, strict=True):
        if draws(operator) or (access.is_random and operator.op not in DROP_PROBABILITIES):
            drawn |= dict.fromkeys(operator.outputs, f"depends on the random numbers of {operator}")
    return propagate(graph, drawn)


def find_defects(graph: Graph) -> Reasons:
    """Return the tensors that MXNet may compute wrong on one device, with the reasons (docs/limits.md)."""
    readers_by_tensor: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        for tensor in operator.inputs:
            readers_by_tensor.setdefault(tensor, []).append(operator)
    wrong: Reasons = {}
    for operator in graph.operators:
        attributes = operator.attributes
        if operator.op == "_backward_LeakyReLU" and attributes.get("act_type") == "prelu":
            wrong[operator.outputs[-1]] = (
                f"MXNet's gradient of the slope of {operator.name} may read memory that it has overwritten"
            )
        has_out_grad = operator.op == "_backward_SoftmaxOutput" and is_true(attributes, "out_grad")
        if has_out_grad and operator.inputs[0] not in graph.outputs:
            wrong[operator.outputs[0]] = f"MXNet's {operator.name} may overwrite the softmax before it reads it again"
        for slot in () if _runs_in_onednn(graph, operator) else _list_overwritten(operator):
            readers = readers_by_tensor[operator.inputs[slot]]  # including `operator`
            for tensor in (tensor for reader in readers for tensor in reader.outputs if len(readers) > 1):
                wrong[tensor] = f"MXNet's {operator.name} may overwrite an input that other operators read"
        read_tensors = {*readers_by_tensor, *graph.outputs, *graph.gradients.values()}
        if not _runs_in_onednn(graph, operator):
            wrong |= _find_incomplete_outputs(operator, read_tensors)
        has_lengths = any(graph.tensors[tensor].name.endswith(UNWRITTEN_SUFFIX) for tensor in operator.outputs[1:])
        if operator.op == "_backward_softmax" and has_lengths:
            wrong[operator.outputs[0]] = (
                f"MXNet's {operator.name} may write zeros over the lengths before it reads them"
            )
    return propagate(graph, wrong)


def _runs_in_onednn(graph: Graph, operator: Operator) -> bool:
    if operator.op != "_backward_RNN" or graph.tensors[operator.outputs[0]].dtype != "float32":
        return False
    return all(os.environ.get(name, "1") != "0" for name in ("MXNET_MKLDNN_ENABLED", ONEDNN_RECURRENCE))


def _list_overwritten(operator: Operator) -> Sequence[int]:
    if operator.op == "_backward_hard_sigmoid":
        return (0,)
    return () if operator.op.startswith("_tofu_") else _mxnet.overwritten_inputs(operator.op, operator.attributes)


def _find_incomplete_outputs(operator: Operator, read_tensors: Collection[int]) -> Reasons:
    description = DESCRIPTIONS.get(operator.op)
    wrong: dict[int, str] = {}
    outputs = dict(enumerate(operator.outputs))  # a description may have more outputs than the operator
    for number, needed_outputs in description.needs.items() if description is not None else ():
        for needed in needed_outputs:
            if number in outputs and needed in outputs and outputs[needed] not in read_tensors:
                wrong[outputs[number]] = (
                    f"MXNet computes output {number} of {operator.name} wrong if nobody reads output {needed}"
                )
    return wrong


def propagate(graph: Graph, direct_reasons: Mapping[int, str]) -> Reasons:
    """Extend `direct_reasons` to all tensors that are computed from these tensors."""
    reasons = dict(direct_reasons)
    for operator in graph.operators:
        reason = next((reasons[tensor] for tensor in operator.inputs if tensor in reasons), None)
        if reason is not None:
            written = (*operator.outputs, *(operator.inputs[slot] for slot in operator.mutates))
            for tensor in written:
                reasons.setdefault(tensor, reason)
    return reasons
