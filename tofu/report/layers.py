"""The model's own layers in a partition: how each is split, and what of it moves between workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import PurePath
from typing import NamedTuple

from tofu.analysis import OperatorAccess
from tofu.graph import Graph, Operator, Phase, TensorKind
from tofu.pipeline import Partition
from tofu.plan import AxisChoice, DimensionChoice
from tofu.search.cost import evaluate


class Transfer(NamedTuple):
    """Bytes of a tensor that workers read from each other in one phase of a training step.

    `is_result`: a layer's parts of it are brought to where it is kept, partial results added up; else a layer reads it.
    """

    phase: Phase
    tensor: str
    is_result: bool
    num_bytes: int


class LaidTensor(NamedTuple):
    """A tensor as a whole, and its dimension split at each step of the plan; None where that step leaves it whole."""

    name: str
    shape: tuple[int, ...]
    steps: DimensionChoice


@dataclass(frozen=True)
class Layer:
    """A part of the model as its user sees it.

    It is a forward operator with its gradient. If the program's lines are known, it is all that a line computes in one part of the model.

    Attributes
    ----------
    name
        Of the operator, or the part of the model and the line: `block_0 train.py:60`.
    operator
        The operator that stands for all: of several the one that computes most.
    line
        The line of the program, or "".
    result
        The first output of that operator.
    forward, backward
        The axis split at each step; `backward` is that of the backward operator that computes most, or of the first one.
    parameters
        Those that it is the first to read.
    transfers
        What its operators and the updates of its parameters read from other workers in one training step.
    """

    name: str
    operator: str
    line: str
    result: LaidTensor
    forward: AxisChoice
    backward: AxisChoice | None
    parameters: tuple[LaidTensor, ...]
    transfers: tuple[Transfer, ...]

    @property
    def moved_bytes(self) -> int:
        """The bytes of all transfers."""
        return sum(transfer.num_bytes for transfer in self.transfers)


def list_layers(partition: Partition) -> list[Layer]:
    """The layers of a partition in the model's order; their `moved_bytes` sum to the plan's communication_bytes.

    Operators that the model itself has not (sums of several gradients, zeros for what no kernel writes) are listed where they move
    something.
    """
    graph, plan = partition.graph, partition.plan
    parts = _find_parts(graph)
    members: dict[int, list[Operator]] = {}
    for position, operator in enumerate(graph.operators):
        members.setdefault(parts[position], []).append(operator)

    def lay(tensor: int) -> LaidTensor:
        name = graph.tensors[tensor].name
        return LaidTensor(name, graph.tensors[tensor].shape, plan.tensors[name])

    def count_points(operator: Operator) -> int:
        position = partition.searched.problem.graph.operator_index[operator.name]
        return prod(partition.searched.problem.accesses[position].extents)

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
        backward = [one for one in operators if one.forward is not None or one.is_gradient]
        forward = [one for one in operators if one.forward is None and not one.is_gradient] or operators
        main = max(forward, key=count_points) if len(forward) > 1 else forward[0]
        gradient = next(iter(backward), main)
        if gradient.is_gradient:
            gradient = max(backward, key=count_points)
        layers.append(
            Layer(
                names[part],
                main.name,
                main.line,
                lay(main.outputs[0]),
                plan.operators[main.name],
                None if gradient is main else plan.operators[gradient.name],
                tuple(map(lay, read.get(part, ()))),
                transfers.get(part, ()),
            )
        )
    return layers


def _find_parts(graph: Graph) -> list[int]:
    """Return, for each operator, the position of the operator that its layer begins with."""
    parts: list[int] = []
    first: dict[tuple[str, str], int] = {}
    for position, operator in enumerate(graph.operators):
        if operator.find_line is None:
            parts.append(position if operator.forward is None else operator.forward)
        else:
            line = operator.line
            parts.append(first.setdefault((operator.scope, line), position) if line or operator.scope else position)
    return parts


def name_layers(graph: Graph) -> dict[int, str]:
    """Return the names of layers, by the position of the operator that each begins with."""
    found = {position: graph.operators[position] for position in dict.fromkeys(_find_parts(graph))}
    short = {
        position: " ".join(filter(None, (one.scope, PurePath(one.line).name))) if one.find_line else one.name
        for position, one in found.items()
    }
    counts = Counter(short.values())
    names = {}
    for position, name in short.items():
        one = found[position]
        is_one = counts[name] == 1 and name
        names[position] = name if is_one else " ".join(filter(None, (one.scope, one.line))) if one.line else one.name
    return names


def find_operator(partition: Partition, name: str) -> str:
    """Return the operator of a name, or the one that stands for a layer of this name."""
    if name in partition.graph.operator_index:
        return name
    return next(layer.operator for layer in list_layers(partition) if layer.name == name)


def _find_transfers(partition: Partition, parts: Sequence[int]) -> dict[int, tuple[Transfer, ...]]:
    """The operator that a layer begins with -> what moves for the layer, by phase, the largest first."""
    owners, tensors = _find_owners(partition), partition.problem.graph.tensors
    moved: dict[int, Counter[tuple[Phase, str, bool]]] = {}
    for group, tensor, phase, count, is_output in evaluate(partition.choices).items:
        moved.setdefault(parts[owners[group]], Counter())[Phase(phase), tensors[tensor].name, is_output] += count
    return {
        owner: tuple(
            sorted((Transfer(*key, count) for key, count in counts.items()), key=lambda t: (t.phase, -t.num_bytes))
        )
        for owner, counts in moved.items()
    }


def _first_readers(partition: Partition) -> dict[int, list[int]]:
    """Operator -> the parameters that it is the first to read."""
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
    """Cost group, of the graph that is emitted -> the model's operator that it is counted with."""
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
        if group not in owners:  # a state of the step's own: where it is read, or made anew
            users = (o for o, one in enumerate(graph.operators) if variable in one.inputs or tensor in one.outputs)
            owners[group] = next(users, 0)
    return owners


def explain_axes(partition: Partition) -> str:
    """What the axes that operators are split by are of their results: `b: dimension 0; co, h: dimension 1; k0: summed over`."""
    meanings: dict[str, dict[str, None]] = {}
    operators = partition.problem.graph.operators
    # Forward operators first: of a backward operator's several results each may say another thing.
    for position in sorted(range(len(operators)), key=lambda p: operators[p].forward is not None):
        access = partition.problem.accesses[position]
        for axis in partition.plan.operators.get(operators[position].name, ()):
            if axis in access.axes and (operators[position].forward is None or axis not in meanings):
                meanings.setdefault(axis, {})[explain_axis(access, access.axes.index(axis))] = None
    names: dict[str, list[str]] = {}
    for axis, of in sorted(meanings.items()):
        names.setdefault(" or ".join(sorted(of)), []).append(axis)
    return "; ".join(f"{', '.join(axes)}: {meaning}" for meaning, axes in sorted(names.items()))


def explain_axis(access: OperatorAccess, axis: int) -> str:
    """What an axis is of the operator's first result: "dimension 1", or "summed over"."""
    rows = access.outputs[0].rows
    dimensions = [d for d, row in enumerate(rows) if any(moving == axis for moving, _ in row.terms)]
    return f"dimension {dimensions[0]}" if dimensions else "summed over"
