"""List how each layer of a model is split, and how many bytes it transfers, for tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tofu.analysis import OperatorAccess
from tofu.graph import (
    Operator,
    Phase,
    TensorKind,
    choose_main_operator,
    find_layers,
    find_phases,
    is_backward,
    name_layers,
)
from tofu.pipeline import Partition
from tofu.plan import AxisChoice, DimensionChoice
from tofu.search.cost import evaluate


class LayerTransfer(NamedTuple):
    """Bytes of one tensor that workers transfer in one phase of a training step.

    `tensor` is an input of the layer, or a result if `is_result` is True.
    """

    phase: Phase
    tensor: str
    is_result: bool
    num_bytes: int


class TensorLayout(NamedTuple):
    """A tensor and its split. `layout[n]` is the dimension that round n splits, or None."""

    name: str
    shape: tuple[int, ...]
    layout: DimensionChoice


@dataclass(frozen=True)
class LayerRow:
    """A layer of a model (`tofu.graph.layers`), and how a plan splits it.

    Attributes
    ----------
    name
        The name of an operator, or a part of the model with its source line: `block_0 train.py:60`.
    operator, gradient
        The forward and the backward operator with the most computation.
    result
        How the first output of `operator` is split.
    forward, backward
        The axes along which `operator` and `gradient` are split, such as ("b", "co").
    parameters
        The parameters that no earlier layer reads.
    transfers
        Bytes that the layer's operators and weight updates read from other workers.
    """

    name: str
    operator: str
    gradient: str
    line: str
    result: TensorLayout
    forward: AxisChoice
    backward: AxisChoice | None
    parameters: tuple[TensorLayout, ...]
    transfers: tuple[LayerTransfer, ...]

    @property
    def moved_bytes(self) -> int:
        """The bytes of all transfers."""
        return sum(transfer.num_bytes for transfer in self.transfers)

    @property
    def largest_parameter(self) -> TensorLayout | None:
        """The parameter with the most elements."""
        return max(self.parameters, key=lambda parameter: prod(parameter.shape), default=None)


def list_layers(partition: Partition) -> list[LayerRow]:
    """List the layers in the order of the model. Their `moved_bytes` add up to the plan's communication.

    Operators that Tofu added are listed only if they transfer bytes.
    """
    graph, plan = partition.graph, partition.plan
    layer_of_operator = find_layers(graph)
    operators_by_layer: dict[int, list[Operator]] = {}
    for position, operator in enumerate(graph.operators):
        operators_by_layer.setdefault(layer_of_operator[position], []).append(operator)

    def describe_tensor(tensor: int) -> TensorLayout:
        name = graph.tensors[tensor].name
        return TensorLayout(name, graph.tensors[tensor].shape, plan.tensors[name])

    count_points = partition.searched.problem.count_points
    transfers = _find_transfers(partition, layer_of_operator)
    parameters_by_layer: dict[int, list[int]] = {}
    for parameter, reader in _find_first_readers(partition).items():
        parameters_by_layer.setdefault(layer_of_operator[reader], []).append(parameter)
    names, layers = name_layers(graph), []
    for layer, operators in operators_by_layer.items():
        if layer not in transfers and (
            graph.operators[layer].phase is not Phase.FORWARD or graph.operators[layer].is_added
        ):
            continue
        backward = list(filter(is_backward, operators))
        main = choose_main_operator(operators, count_points)
        gradient = next(iter(backward), main)
        if gradient.is_gradient:
            gradient = max(backward, key=count_points)
        layers.append(
            LayerRow(
                names[layer],
                main.name,
                gradient.name,
                main.line,
                describe_tensor(main.outputs[0]),
                plan.operators[main.name],
                None if gradient is main else plan.operators[gradient.name],
                tuple(map(describe_tensor, parameters_by_layer.get(layer, ()))),
                transfers.get(layer, ()),
            )
        )
    return layers


def _find_transfers(partition: Partition, layer_of_operator: Sequence[int]) -> dict[int, tuple[LayerTransfer, ...]]:
    owners, tensors = _find_owners(partition), partition.problem.graph.tensors
    phases, operator_count = find_phases(partition.graph), len(partition.problem.graph.operators)
    bytes_by_layer: dict[int, Counter[tuple[Phase, str, bool]]] = {}
    for group, tensor, phase, count, is_output in evaluate(partition.choices).items:
        layer_bytes = bytes_by_layer.setdefault(layer_of_operator[owners[group]], Counter())
        # The cost of a JAX step has one phase. Groups after those of the operators are updates of tensors.
        found = phases[owners[group]] if group < operator_count else Phase(phase)
        layer_bytes[found, tensors[tensor].name, is_output] += count
    return {
        layer: tuple(
            sorted((LayerTransfer(*key, count) for key, count in counts.items()), key=lambda t: (t.phase, -t.num_bytes))
        )
        for layer, counts in bytes_by_layer.items()
    }


def _find_first_readers(partition: Partition) -> dict[int, int]:
    graph, readers = partition.graph, dict[int, int]()
    for position, operator in enumerate(graph.operators):
        for tensor in operator.inputs:
            if graph.tensors[tensor].kind is TensorKind.PARAMETER:
                readers.setdefault(tensor, position)
    return readers


def _find_owners(partition: Partition) -> dict[int, int]:
    graph, program_graph = partition.graph, partition.problem.graph
    owner_by_group = {}
    for position, named in enumerate(program_graph.named_parts):
        owner_by_group[position] = graph.operator_index[program_graph.operators[named].name]
    for parameter, reader in _find_first_readers(partition).items():
        tensor = program_graph.tensor_index[graph.tensors[parameter].name]
        owner_by_group[len(program_graph.operators) + tensor] = reader
    for variable, tensor in graph.updates:
        group = len(program_graph.operators) + program_graph.tensor_index[graph.tensors[variable].name]
        if group not in owner_by_group:  # a state of the step is listed with an operator that reads or writes it
            users = (n for n, o in enumerate(graph.operators) if variable in o.inputs or tensor in o.outputs)
            owner_by_group[group] = next(users, 0)
    return owner_by_group


def explain_axes(partition: Partition, layers: Sequence[LayerRow]) -> str:
    """Explain the axes of `layers`: "b: dimension 0; co, h: dimension 1" says that b is dimension 0 of a result."""
    problem, meanings = partition.problem, dict[str, dict[str, None]]()
    for layer in layers:
        # The backward operator may have an axis of the same name with another meaning.
        explained_axes: set[str] = set()
        for name, axes in ((layer.operator, layer.forward), (layer.gradient, layer.backward or ())):
            access = problem.accesses[problem.graph.operator_index[name]]
            for axis in dict.fromkeys(axes):
                if axis in access.axes and axis not in explained_axes:
                    explained_axes.add(axis)
                    meanings.setdefault(axis, {})[explain_axis(access, access.axes.index(axis))] = None
    axes_by_meaning: dict[str, list[str]] = {}
    for axis, meanings_of_axis in sorted(meanings.items()):
        axes_by_meaning.setdefault(" or ".join(sorted(meanings_of_axis)), []).append(axis)
    return "; ".join(f"{', '.join(axes)}: {meaning}" for meaning, axes in sorted(axes_by_meaning.items()))


def explain_axis(access: OperatorAccess, axis: int) -> str:
    """Return the dimension of the first result that an axis indexes, such as "dimension 1".

    Return "summed over" for other axes.
    """
    rows = access.outputs[0].rows
    dimensions = [d for d, row in enumerate(rows) if any(moving == axis for moving, _ in row.terms)]
    return f"dimension {dimensions[0]}" if dimensions else "summed over"
