"""Passes for operators that read memory which MXNet leaves unwritten or overwrites.

- `replace_scratch_reads`: the gradient of SequenceLast without lengths reads the number of the last time step from
  scratch memory. A kernel of Tofu with constant lengths replaces it.
- `fill_unwritten`: some kernels never write an output, such as a label's gradient, which stays zero on one device. If
  the output is read, an operator writes zeros.
"""

from __future__ import annotations

from dataclasses import replace

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import analyse
from tofu.errors import DescriptionError, UnsupportedError
from tofu.graph import Graph, Operator, Tensor, TensorKind
from tofu.mxnet.lowerings.conventions import TYPES, positive_axis
from tofu.mxnet.lowerings.indexing import pick_by_lengths


def replace_scratch_reads(graph: Graph) -> Graph:
    """Return the graph with constant lengths for gradients that would read scratch memory.

    Tensors keep their numbers.
    """
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    new_positions: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        forward = None if operator.forward is None else new_positions[operator.forward]
        updated = replace(operator, forward=forward)
        if _reads_scratch(operator, graph.tensors):
            operators += _add_lengths(updated, tensors)
        else:
            operators.append(updated)
        new_positions[number] = len(operators) - 1
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def _reads_scratch(operator: Operator, tensors: tuple[Tensor, ...]) -> bool:
    has_kernel = all(tensors[position].dtype in TYPES for position in operator.inputs)
    return operator.op == "_backward_SequenceLast" and len(operator.inputs) == 1 and has_kernel


def _add_lengths(operator: Operator, tensors: list[Tensor]) -> tuple[Operator, Operator]:
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


UNWRITTEN_SUFFIX = "/unwritten"
"""Ending of the name of an unwritten output that an operator now fills with zeros."""


def fill_unwritten(graph: Graph) -> Graph:
    """Return the graph with zeros for outputs that are read but never written. Tensors keep their numbers."""
    read_tensors = graph.results.union(*(operator.inputs for operator in graph.operators))
    operators: list[Operator] = []
    tensors = list(graph.tensors)
    new_positions: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        new_positions[number] = len(operators)
        forward = None if operator.forward is None else new_positions[operator.forward]
        outputs, zero_operators = list(operator.outputs), []
        for slot in _find_unwritten_slots(graph, operator):
            unwritten = operator.outputs[slot]
            if unwritten in read_tensors:
                outputs[slot] = len(tensors)
                tensors.append(replace(tensors[unwritten], name=tensors[unwritten].name + UNWRITTEN_SUFFIX))
                zero_operators.append(_make_zeros(f"{operator.name}/zeros{slot}", operator, graph, unwritten))
        operators += [replace(operator, outputs=tuple(outputs), forward=forward), *zero_operators]
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def _find_unwritten_slots(graph: Graph, operator: Operator) -> list[int]:
    description = DESCRIPTIONS.get(operator.op)
    if description is None or len(operator.outputs) == 1:
        return []
    shapes = ([graph.tensors[t].shape for t in tensors] for tensors in (operator.inputs, operator.outputs))
    try:
        access = analyse(description, operator.attributes, *shapes)
    except (UnsupportedError, DescriptionError):  # refused later, or replicated
        return []
    return [slot for slot, output in enumerate(access.outputs) if not output.is_written]


def _make_zeros(name: str, operator: Operator, graph: Graph, tensor: int) -> Operator:
    attributes = {"shape": str(graph.tensors[tensor].shape), "dtype": graph.tensors[tensor].dtype}
    return Operator(name, "_zeros", attributes, (), (tensor,), operator.phase, is_added=True)
