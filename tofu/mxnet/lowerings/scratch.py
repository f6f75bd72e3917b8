"""Gradients that MXNet works out from scratch memory which its forward kernel has left, while other operators write there in between.

SequenceLast without lengths is one: its gradient takes the last step's number from there. Here it is told the lengths, all of them the
whole time, and runs as the part that does so by itself (`sequence.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tofu.graph import Graph, Operator, Tensor, TensorKind
from tofu.mxnet.lowerings.conventions import TYPES, positive_axis
from tofu.mxnet.lowerings.sequence import pick_by_lengths


def mend_scratch(graph: Graph) -> Graph:
    """The graph with a constant of lengths beside each such gradient. Tensors keep their positions."""
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    position_of: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        forward = None if operator.forward is None else position_of[operator.forward]
        moved = replace(operator, forward=forward)
        if _reads_scratch(operator, graph.tensors):
            operators += _give_lengths(moved, tensors)
        else:
            operators.append(moved)
        position_of[number] = len(operators) - 1
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def _reads_scratch(operator: Operator, tensors: tuple[Tensor, ...]) -> bool:
    has_part = all(tensors[position].dtype in TYPES for position in operator.inputs)
    return operator.op == "_backward_SequenceLast" and len(operator.inputs) == 1 and has_part


def _give_lengths(operator: Operator, tensors: list[Tensor]) -> tuple[Operator, Operator]:
    """The operator that makes the lengths, whose tensor is appended, and the gradient that reads them."""
    data = tensors[operator.outputs[0]]
    time = positive_axis(operator.attributes, 2, 0)
    name, batch = f"{operator.name}/lengths", (data.shape[1 - time],)
    attributes = {"shape": str(batch), "value": str(data.shape[time]), "dtype": data.dtype}
    constant = Operator(name, "_full", attributes, (), (len(tensors),), operator.phase, is_added=True)
    gradient = replace(
        operator,
        op="_tofu_pick_backward",
        attributes=pick_by_lengths(operator.attributes, data.shape) | {"extent": str(data.shape[time])},
        inputs=(*operator.inputs, len(tensors)),
        stateful=False,
        ignored=(),
        origin=None,
    )
    tensors.append(Tensor(name, batch, data.dtype, data.item_bytes, TensorKind.INTERMEDIATE))
    return constant, gradient
