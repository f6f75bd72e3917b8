"""Replace reads of memory that no kernel writes, or that another kernel overwrites.

- The gradient of SequenceLast without lengths reads the number of the last time step from scratch memory. Tofu's
  operator for this gradient reads the number from an input instead.
- Some kernels never write an output, such as a label's gradient. If an operator reads this output, Tofu fills it with
  zeros, as on one device.
- CTCLoss writes nothing if no sample has a label, as may happen on a worker. Tofu's operator replaces it.
"""

from __future__ import annotations

from dataclasses import replace

from tofu.graph import Graph, Operator, Tensor, TensorKind
from tofu.mxnet.frontend.origin import Origin, find_origin
from tofu.mxnet.lowerings.conventions import TYPES, find_access, positive_axis, replace_operators
from tofu.mxnet.lowerings.indexing import pick_by_lengths

UNWRITTEN_SUFFIX = "/unwritten"
"""Ending of the name of an unwritten output that is replaced by zeros."""


def complete_reads(graph: Graph) -> Graph:
    """Replace operators that read or return scratch memory. Fill outputs with zeros if they are read but never written."""
    read_tensors = graph.results.union(*(operator.inputs for operator in graph.operators))
    tensors = list(graph.tensors)

    def expand(_: int, operator: Operator) -> list[Operator]:
        if operator.op == "_backward_SequenceLast" and len(operator.inputs) == 1:
            return _add_lengths(operator, tensors)
        if operator.op == "CTCLoss":
            origin = Origin(replaced=find_origin(operator).node)
            return [replace(operator, op="_tofu_ctc_loss", origin=origin)]
        access = find_access(graph, operator) if len(operator.outputs) > 1 else None
        outputs, zero_operators = list(operator.outputs), []
        for slot, output in enumerate(access.outputs if access is not None else ()):
            if not output.is_written and (unwritten := operator.outputs[slot]) in read_tensors:
                tensor = tensors[unwritten]
                outputs[slot] = len(tensors)
                tensors.append(replace(tensor, name=tensor.name + UNWRITTEN_SUFFIX))
                name, attributes = f"{operator.name}/zeros{slot}", {"shape": str(tensor.shape), "dtype": tensor.dtype}
                zeros = Operator(name, "_zeros", attributes, (), (unwritten,), operator.phase, is_added=True)
                zero_operators.append(zeros)
        return [replace(operator, outputs=tuple(outputs)), *zero_operators]

    operators = replace_operators(graph, expand)
    return replace(graph, tensors=tuple(tensors), operators=operators)


def _add_lengths(operator: Operator, tensors: list[Tensor]) -> list[Operator]:
    if any(tensors[position].dtype not in TYPES for position in operator.inputs):
        return [operator]
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
    return [constant, gradient]
