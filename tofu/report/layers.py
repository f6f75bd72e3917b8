"""Layers of a partition: the split of each, and the bytes that it transfers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tofu.analysis import OperatorAccess
from tofu.graph import Operator, Phase, TensorKind, choose_main_operator, find_layers, is_backward, name_layers
from tofu.pipeline import Partition
from tofu.plan import AxisChoice, DimensionChoice
from tofu.search.cost import evaluate


class LayerTransfer(NamedTuple):
    """Bytes of a tensor that workers read from each other in one phase of a training step.

    `is_result` is True if parts of a layer's result are stored or reduced, False if a layer reads the tensor.
    """

    phase: Phase
    tensor: str
    is_result: bool
    num_bytes: int


class LaidTensor(NamedTuple):
    """Tensor with its shape, and the dimension that each round splits; None for a round in which it is replicated."""

    name: str
    shape: tuple[int, ...]
    steps: DimensionChoice


@dataclass(frozen=True)
class LayerRow:
    """Layer of a model (`tofu.graph.layers`) in a partition.

    Attributes
    ----------
    name
        The name of the operator, or the part of the model and the line: `block_0 train.py:60`.
    operator, gradient
        The operators that represent the layer: the forward operator that computes most, and the backward operator that
        computes most, or the first one. `gradient` is `operator` in a layer without backward operators.
    line
        The line of the program, or "".
    result
        The first output of that operator.
    forward, backward
        The axis that each round splits, of these operators.
    parameters
        Parameters that the layer is the first to read.
    transfers
        Reads from other workers in a training step, by its operators and the updates of its parameters.
    """

    name: str
    operator: str
    gradient: str
    line: str
    result: LaidTensor
    forward: AxisChoice
    backward: AxisChoice | None
    parameters: tuple[LaidTensor, ...]
    transfers: tuple[LayerTransfer, ...]

    @property
    def moved_bytes(self) -> int:
        """The bytes of all transfers."""
        return sum(transfer.num_bytes for transfer in self.transfers)


def list_layers(partition: Partition) -> list[LayerRow]:
    """Return the layers of a partition in the model's order. Their `moved_bytes` sum to the plan's communication_bytes.

    Operators that the model lacks (sums of several gradients, zeros that no kernel writes) are listed only if they move
    bytes.
    """
    graph, plan = partition.graph, partition.plan
    parts = find_layers(graph)
    members: dict[int, list[Operator]] = {}
    for position, operator in enumerate(graph.operators):
        members.setdefault(parts[position], []).append(operator)

    def lay(tensor: int) -> LaidTensor:
        name = graph.tensors[tensor].name
        return LaidTensor(name, graph.tensors[tensor].shape, plan.tensors[name])

    count_points = partition.searched.problem.count_points
    parameters, transfers = _first_readers(partition), _find_transfers(partition, parts)
    read: dict[int, list[int]] = {}
    for position, tensors in parameters.items():
        read.setdefault(parts[position], []).extend(tensors)
    names, layers = name_layers(graph), []
    for part, operators in members.items():
        if part not in transfers and (
            graph.operators[part].phase is not Phase.FORWARD or graph.operators[part].is_added
        ):
            continue
        backward = list(filter(is_backward, operators))
        main = choose_main_operator(operators, count_points)
        gradient = next(iter(backward), main)
        if gradient.is_gradient:
            gradient = max(backward, key=count_points)
        layers.append(
            LayerRow(
                names[part],
                main.name,
                gradient.name,
                main.line,
                lay(main.outputs[0]),
                plan.operators[main.name],
                None if gradient is main else plan.operators[gradient.name],
                tuple(map(lay, read.get(part, ()))),
                transfers.get(part, ()),
            )
        )
    return layers


def find_operator(partition: Partition, name: str) -> str:
    """Return the operator of a name, or the operator that represents the layer of this name."""
    if name in partition.graph.operator_index:
        return name
    return next(layer.operator for layer in list_layers(partition) if layer.name == name)


def _find_transfers(partition: Partition, parts: Sequence[int]) -> dict[int, tuple[LayerTransfer, ...]]:
    """Return the transfers of each layer, by its first operator, in order of phase and size."""
    owners, tensors = _find_owners(partition), partition.problem.graph.tensors
    moved: dict[int, Counter[tuple[Phase, str, bool]]] = {}
    for group, tensor, phase, count, is_output in evaluate(partition.choices).items:
        moved.setdefault(parts[owners[group]], Counter())[Phase(phase), tensors[tensor].name, is_output] += count
    return {
        owner: tuple(
            sorted((LayerTransfer(*key, count) for key, count in counts.items()), key=lambda t: (t.phase, -t.num_bytes))
        )
        for owner, counts in moved.items()
    }


def _first_readers(partition: Partition) -> dict[int, list[int]]:
    """Return operators -> the parameters that each is the first to read."""
    graph = partition.graph
    seen: set[int] = set()
    readers: dict[int, list[int]] = {}
    for position, operator in enumerate(graph.operators):
        for tensor in operator.inputs:
            if graph.tensors[tensor].kind is TensorKind.PARAMETER and tensor not in seen:
                seen.add(tensor)
                readers.setdefault(position, []).append(tensor)
    return readers


def _find_owners(partition: Partition) -> dict[int, int]:
    """Return cost groups of the emitted graph -> the model's operator that each is counted with."""
    graph, emitted = partition.graph, partition.problem.graph
    owners = {}
    for position, named in enumerate(emitted.named_parts):
        owners[position] = graph.operator_index[emitted.operators[named].name]
    for owner, parameters in _first_readers(partition).items():
        for parameter in parameters:
            tensor = emitted.tensor_index[graph.tensors[parameter].name]
            owners[len(emitted.operators) + tensor] = owner
    for variable, tensor in graph.updates:
        group = len(emitted.operators) + emitted.tensor_index[graph.tensors[variable].name]
        if group not in owners:  # a state of the step: count it where it is read or written
            users = (n for n, o in enumerate(graph.operators) if variable in o.inputs or tensor in o.outputs)
            owners[group] = next(users, 0)
    return owners


def explain_axes(partition: Partition, layers: Sequence[LayerRow]) -> str:
    """Return the meaning of the axes that layers are split along, in their results: `b: dimension 0; co, h: dimension 1`."""
    problem, meanings = partition.problem, dict[str, dict[str, None]]()
    for layer in layers:
        known: set[str] = (
            set()
        )  # a backward operator's results may give an axis of the forward operator another meaning
        for name, axes in ((layer.operator, layer.forward), (layer.gradient, layer.backward or ())):
            access = problem.accesses[problem.graph.operator_index[name]]
            for axis in dict.fromkeys(axes):
                if axis in access.axes and axis not in known:
                    known.add(axis)
                    meanings.setdefault(axis, {})[explain_axis(access, access.axes.index(axis))] = None
    names: dict[str, list[str]] = {}
    for axis, of in sorted(meanings.items()):
        names.setdefault(" or ".join(sorted(of)), []).append(axis)
    return "; ".join(f"{', '.join(axes)}: {meaning}" for meaning, axes in sorted(names.items()))


def explain_axis(access: OperatorAccess, axis: int) -> str:
    """Return the meaning of an axis in the operator's first result: "dimension 1", or "summed over"."""
    rows = access.outputs[0].rows
    dimensions = [d for d, row in enumerate(rows) if any(moving == axis for moving, _ in row.terms)]
    return f"dimension {dimensions[0]}" if dimensions else "summed over"
