"""The model's own layers in a partition: how each is split, and what of it moves between workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from tofu.analysis import OperatorAccess
from tofu.graph import Phase, TensorKind
from tofu.pipeline import Partition
from tofu.plan import AxisSteps, Steps
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
    steps: Steps


@dataclass(frozen=True)
class Layer:
    """A forward operator with everything that belongs to it.

    Attributes
    ----------
    name
        Of the operator.
    result
        Its first output.
    forward, backward
        The axis split at each step; `backward` is that of its first backward operator.
    parameters
        Those that it is the first to read.
    transfers
        What its operators and the updates of its parameters read from other workers in one training step.
    """

    name: str
    result: LaidTensor
    forward: AxisSteps
    backward: AxisSteps | None
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
    backward: dict[int, AxisSteps] = {}
    for operator in graph.operators:
        if operator.forward is not None:
            backward.setdefault(operator.forward, plan.operators[operator.name])

    def lay(tensor: int) -> LaidTensor:
        name = graph.tensors[tensor].name
        return LaidTensor(name, graph.tensors[tensor].shape, plan.tensors[name])

    parameters, transfers = _first_readers(partition), _find_transfers(partition)
    return [
        Layer(
            operator.name,
            lay(operator.outputs[0]),
            plan.operators[operator.name],
            backward.get(position),
            tuple(lay(tensor) for tensor in parameters.get(position, ())),
            transfers.get(position, ()),
        )
        for position, operator in enumerate(graph.operators)
        if (operator.phase is Phase.FORWARD and not operator.is_added) or position in transfers
    ]


def _find_transfers(partition: Partition) -> dict[int, tuple[Transfer, ...]]:
    """The model's operator -> what moves for its layer, by phase, the largest first."""
    owners, tensors = _find_owners(partition), partition.problem.graph.tensors
    moved: dict[int, Counter[tuple[Phase, str, bool]]] = {}
    for group, tensor, phase, count, is_output in evaluate(partition.problem, partition.choices).items:
        moved.setdefault(owners[group], Counter())[Phase(phase), tensors[tensor].name, is_output] += count
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
    """Cost group, of the graph that is emitted -> the model's operator whose layer it is counted with."""
    graph, emitted = partition.graph, partition.problem.graph
    owners = {}
    for position, named in enumerate(emitted.named_parts):
        owner = graph.operator_index[emitted.operators[named].name]
        forward = graph.operators[owner].forward
        owners[position] = owner if forward is None else forward
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
