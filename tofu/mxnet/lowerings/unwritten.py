"""Outputs that a kernel never writes, or only zeros to, as the gradient of a label: where somebody reads one, it becomes zeros.

On one device such a gradient is what its array was made with, zeros. A shard of it would be whatever a step left in its memory.
"""

from __future__ import annotations

from dataclasses import replace

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import analyse
from tofu.errors import DescriptionError, UnsupportedError
from tofu.graph import Graph, Operator

FILLED = "/unwritten"
"""How the name of an output ends in whose place somebody reads zeros."""


def fill_unwritten(graph: Graph) -> Graph:
    """The graph with zeros in place of outputs that somebody reads and no kernel writes, by the operators' descriptions.

    The zeros are made by an operator of their own, right after the one that leaves them unwritten. Tensors keep their positions.
    """
    read = graph.results.union(*(operator.inputs for operator in graph.operators))
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    position_of: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        position_of[number] = len(operators)
        forward = None if operator.forward is None else position_of[operator.forward]
        outputs, zeros = list(operator.outputs), []
        for slot in _find_unwritten(graph, operator):
            filled = operator.outputs[slot]
            if filled in read:
                outputs[slot] = len(tensors)
                tensors.append(replace(tensors[filled], name=tensors[filled].name + FILLED))
                zeros.append(_make_zeros(f"{operator.name}/zeros{slot}", operator, graph, filled))
        operators += [replace(operator, outputs=tuple(outputs), forward=forward), *zeros]
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def _find_unwritten(graph: Graph, operator: Operator) -> list[int]:
    description = DESCRIPTIONS.get(operator.op)
    if description is None or len(operator.outputs) == 1:
        return []
    shapes = ([graph.tensors[t].shape for t in tensors] for tensors in (operator.inputs, operator.outputs))
    try:
        access = analyse(description, operator.attributes, *shapes)
    except (UnsupportedError, DescriptionError):  # refused later, or computed whole
        return []
    return [slot for slot, output in enumerate(access.outputs) if not output.is_written]


def _make_zeros(name: str, operator: Operator, graph: Graph, tensor: int) -> Operator:
    attributes = {"shape": str(graph.tensors[tensor].shape), "dtype": graph.tensors[tensor].dtype}
    return Operator(name, "_zeros", attributes, (), (tensor,), operator.phase, is_added=True)
