"""Layers of a partition, for tables: how each layer is split, and the bytes that it transfers."""

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

    If `is_result` is True, the tensor is a result of the layer, whose parts are gathered or reduced. Otherwise the layer
    reads the tensor.
    """

    phase: Phase
    tensor: str
    is_result: bool
    num_bytes: int


class LaidTensor(NamedTuple):
    """Tensor with its shape, and the dimension that each round splits, or None if the round replicates it."""

    name: str
    shape: tuple[int, ...]
    steps: DimensionChoice


@dataclass(frozen=True)
class LayerRow:
    """Layer of a model (`tofu.graph.layers`) in a partition.

    Attributes
    ----------
    name
        The name of the operator, or the part of the model with the line of the program: `block_0 train.py:60`.
    operator, gradient
        The forward operator and the backward operator that represent the layer, because they compute most. In a layer
        without backward operators, both are the same.
    line
        The line of the program, or "".
    result
        The first output of `operator`.
    forward, backward
        The axis of `operator` and of `gradient` that each round splits.
    parameters
        The parameters that no earlier layer reads.
    transfers
        Bytes that the layer's operators, and the updates of its parameters, read from other workers.
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
    """Return the layers of a partition in the model's order. The sum of their `moved_bytes` is the plan's communication.

    Operators that are not in the user's model, such as sums of several gradients, are only listed if they move bytes.
    """
    graph, plan = partition.graph, partition.plan
    parts = find_layers(graph)
    operators_by_part: dict[int, list[Operator]] = {}
    for position, operator in enumerate(graph.operators):
        operators_by_part.setdefault(parts[position], []).append(operator)

    def describe_tensor(tensor: int) -> LaidTensor:
        name = graph.tensors[tensor].name
        return LaidTensor(name, graph.tensors[tensor].shape, plan.tensors[name])

    count_points = partition.searched.problem.count_points
    parameters, transfers = _first_readers(partition), _find_transfers(partition, parts)
    parameters_by_part: dict[int, list[int]] = {}
    for position, tensors in parameters.items():
        parameters_by_part.setdefault(parts[position], []).extend(tensors)
    names, layers = name_layers(graph), []
    for part, operators in operators_by_part.items():
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
                describe_tensor(main.outputs[0]),
                plan.operators[main.name],
                None if gradient is main else plan.operators[gradient.name],
                tuple(map(describe_tensor, parameters_by_part.get(part, ()))),
                transfers.get(part, ()),
            )
        )
    return layers


def find_operator(partition: Partition, name: str) -> str:
    """Return `name` if it is an operator's, or else the operator that represents the layer with this name."""
    if name in partition.graph.operator_index:
        return name
    return next(layer.operator for layer in list_layers(partition) if layer.name == name)


def _find_transfers(partition: Partition, parts: Sequence[int]) -> dict[int, tuple[LayerTransfer, ...]]:
    """Return the transfers of each layer in order of phase and size. Keys are the layers' first operators."""
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
    """Map each operator to the parameters that no earlier operator reads."""
    graph = partition.graph
    parameters_seen: set[int] = set()
    readers: dict[int, list[int]] = {}
    for position, operator in enumerate(graph.operators):
        for tensor in operator.inputs:
            if graph.tensors[tensor].kind is TensorKind.PARAMETER and tensor not in parameters_seen:
                parameters_seen.add(tensor)
                readers.setdefault(position, []).append(tensor)
    return readers


def _find_owners(partition: Partition) -> dict[int, int]:
    """Map each group of the native cost to the operator of the model that its bytes are counted with."""
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
        if group not in owners:  # a state of the step: count it for an operator that reads or writes it
            users = (n for n, o in enumerate(graph.operators) if variable in o.inputs or tensor in o.outputs)
            owners[group] = next(users, 0)
    return owners


def explain_axes(partition: Partition, layers: Sequence[LayerRow]) -> str:
    """Explain the axes that layers are split along: `b: dimension 0; co, h: dimension 1` of the layers' results."""
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
