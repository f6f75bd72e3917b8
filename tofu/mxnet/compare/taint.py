"""What of a training step cannot be held against one device: what random operators reach, and what one device itself gets wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tdl_ops.mxnet import DESCRIPTIONS
from tofu import _mxnet
from tofu.analysis import OperatorAccess
from tofu.graph import Graph, Operator
from tofu.mxnet.compare.symbols import DROPOUT
from tofu.mxnet.lowerings.completion import FILLED

Reasons = dict[int, str]
"""Position of a tensor -> why it cannot be compared."""


def find_random(graph: Graph, accesses: Sequence[OperatorAccess]) -> Reasons:
    """The tensors of a graph that depend on numbers which every worker draws for itself. `accesses` are those of its operators."""
    drawn: Reasons = {}
    for operator, access in zip(graph.operators, accesses, strict=True):
        if _draws(operator, access):
            drawn |= dict.fromkeys(operator.outputs, f"depends on the random numbers of {operator}")
    return spread(graph, drawn)


def _draws(operator: Operator, access: OperatorAccess) -> bool:
    if operator.op in DROPOUT:
        return float(operator.attributes.get("p", DROPOUT[operator.op])) > 0
    is_own = operator.op.startswith("_tofu_")
    return access.is_random or (not is_own and bool(_mxnet.operator_info(operator.op)["is_random"]))


def find_defects(graph: Graph) -> Reasons:
    """The tensors that one device itself may have wrong, with what MXNet does there (docs/limits.md)."""
    readers: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        for tensor in operator.inputs:
            readers.setdefault(tensor, []).append(operator)
    wrong: Reasons = {}
    for operator in graph.operators:
        attributes = operator.attributes
        if operator.op == "_backward_LeakyReLU" and attributes.get("act_type") == "prelu":
            wrong[operator.outputs[-1]] = (
                f"MXNet's gradient of the slope of {operator.name} may read what it has overwritten"
            )
        for slot in _list_overwritten(operator):
            sharing = readers[operator.inputs[slot]]  # among them the operator itself
            for tensor in (tensor for reader in sharing for tensor in reader.outputs if len(sharing) > 1):
                wrong[tensor] = f"MXNet's {operator.name} may overwrite what it shares with others"
        wrong |= _find_unwritten(operator, {*readers, *graph.outputs, *graph.gradients.values()})
        has_lengths = any(graph.tensors[tensor].name.endswith(FILLED) for tensor in operator.outputs[1:])
        if operator.op == "_backward_softmax" and has_lengths:
            wrong[operator.outputs[0]] = (
                f"MXNet's {operator.name} may write zeros over the lengths before it reads them"
            )
        if operator.op == "_backward_ctc_loss":
            wrong[operator.outputs[0]] = (
                f"{operator.name} leaves samples unwritten whose labels do not fit into their length"
            )
    return spread(graph, wrong)


def _list_overwritten(operator: Operator) -> Sequence[int]:
    """Inputs that MXNet's kernel changes while others may still read them."""
    if operator.op == "_backward_hard_sigmoid":
        return (0,)
    return () if operator.op.startswith("_tofu_") else _mxnet.overwritten_inputs(operator.op, operator.attributes)


def _find_unwritten(operator: Operator, read: Collection[int]) -> Reasons:
    """Outputs that MXNet's kernel computes along with others, and not without these."""
    description = DESCRIPTIONS.get(operator.op)
    wrong: dict[int, str] = {}
    outputs = dict(enumerate(operator.outputs))  # some descriptions speak of more than the attributes ask for
    for number, others in description.needs.items() if description is not None else ():
        for other in others:
            if number in outputs and other in outputs and outputs[other] not in read:
                wrong[outputs[number]] = (
                    f"MXNet leaves output {number} of {operator.name} wrong where nobody reads output {other}"
                )
    return wrong


def spread(graph: Graph, first: Mapping[int, str]) -> Reasons:
    """The same reasons for everything that depends on those tensors."""
    reasons = dict(first)
    for operator in graph.operators:
        reason = next((reasons[tensor] for tensor in operator.inputs if tensor in reasons), None)
        if reason is not None:
            written = (*operator.outputs, *(operator.inputs[slot] for slot in operator.mutates))
            for tensor in written:
                reasons.setdefault(tensor, reason)
    return reasons
