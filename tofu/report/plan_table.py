"""A partition as tables for people: how each layer is split, what it moves, and what every worker holds.

`str(plan)` lists everything; these tables show the model's own layers, each with its backward operators and its
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rich.console import Console
from rich.table import Table

from tofu import _mxnet
from tofu.analysis import OperatorAccess
from tofu.execution.memory import source_variables
from tofu.graph import Phase, TensorKind
from tofu.partition import Partition
from tofu.plan import format_bytes, format_seconds

WIDTH_WITHOUT_TERMINAL = 140
WHOLE = "-"
LEGEND = """
A step is a factor of the number of workers. Operators: the axis split at each step. Parameters: the dimension.
"-": whole on every worker. Moved: forward, backward and update, all workers together.\
"""


@dataclass(frozen=True)
class Layer:
    """A forward operator with everything that belongs to it.

    Attributes
    ----------
    name, shape
        Of the operator, and of its first output as a whole.
    forward, backward
        The axis split at each step; `backward` is that of its first backward operator.
    parameters
        Name, shape and the dimension split at each step, of each parameter that it is the first to read.
    moved_bytes
        What its operators and the updates of its parameters read from other workers in one training step.
    """

    name: str
    shape: tuple[int, ...]
    forward: tuple[str | None, ...]
    backward: tuple[str | None, ...] | None
    parameters: tuple[tuple[str, tuple[int, ...], tuple[int | None, ...]], ...]
    moved_bytes: int


def list_layers(partition: Partition) -> list[Layer]:
    """The layers of a partition in the model's order; their `moved_bytes` sum to the plan's communication_bytes.

    Backward operators of no forward operator (sums of several gradients) are listed where they move something.
    """
    graph, plan = partition.graph, partition.plan
    owners = _find_owners(partition)
    moved = [0] * len(graph.operators)
    for group, _, _, count, _ in partition.problem.evaluate(partition.choices).items:
        moved[owners[group]] += count
    backward: dict[int, tuple[str | None, ...]] = {}
    for operator in graph.operators:
        if operator.forward is not None:
            backward.setdefault(operator.forward, plan.operators[operator.name])
    parameters = _first_readers(partition)
    layers = []
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD or moved[position]:
            layers.append(
                Layer(
                    operator.name,
                    graph.tensors[operator.outputs[0]].shape,
                    plan.operators[operator.name],
                    backward.get(position),
                    tuple(
                        (graph.tensors[t].name, graph.tensors[t].shape, plan.tensors[graph.tensors[t].name])
                        for t in parameters.get(position, ())
                    ),
                    moved[position],
                )
            )
    return layers


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
    # Of the parts that take an operator's place, the last has its name.
    names = {o.leader: o.name for o in emitted.operators if o.leader is not None and not o.is_inner}
    owners = {}
    for position, operator in enumerate(emitted.operators):
        leader = position if operator.leader is None else operator.leader
        owner = graph.operator_index[names.get(leader, operator.name)]
        forward = graph.operators[owner].forward
        owners[position] = owner if forward is None else forward
    for owner, parameters in _first_readers(partition).items():
        for parameter in parameters:
            tensor = emitted.tensor_index[graph.tensors[parameter].name]
            owners[len(emitted.operators) + tensor] = owner
    return owners


def layer_table(partition: Partition, max_rows: int | None = None) -> Table:
    """One row per layer. Beyond `max_rows`, layers that neither move bytes nor have parameters go, then the middle."""
    layers = list_layers(partition)
    shown = layers
    if max_rows is not None and len(shown) > max_rows:
        shown = [layer for layer in layers if layer.parameters or layer.moved_bytes]
    head, tail = shown, []
    if max_rows is not None and len(shown) > max_rows:
        head, tail = shown[: max_rows // 2], shown[-(max_rows - max_rows // 2) :]
    factors = " x ".join(map(str, partition.plan.factors))
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("layer", no_wrap=True)
    table.add_column("result", style="dim", no_wrap=True)
    table.add_column(f"forward\n{factors}", no_wrap=True)
    table.add_column("backward", no_wrap=True)
    table.add_column("parameters: dimension split", no_wrap=True)
    table.add_column("moved", justify="right", no_wrap=True)
    for layer in head:
        table.add_row(*_cells(layer))
    if len(head) + len(tail) < len(layers):
        table.add_row(f"... {len(layers) - len(head) - len(tail)} more", style="dim")
    for layer in tail:
        table.add_row(*_cells(layer))
    return table


def _cells(layer: Layer) -> list[str]:
    return [
        layer.name,
        _shape(layer.shape),
        _steps(layer.forward),
        "" if layer.backward is None else _steps(layer.backward),
        _describe_parameters(layer),
        format_bytes(layer.moved_bytes) if layer.moved_bytes else WHOLE,
    ]


def _describe_parameters(layer: Layer) -> str:
    """The largest parameter, and how many smaller ones there are."""
    if not layer.parameters:
        return ""
    name, shape, steps = max(layer.parameters, key=lambda parameter: prod(parameter[1]))
    more = len(layer.parameters) - 1
    return f"{name} {_shape(shape)}: {_steps(steps)}" + (f" [dim](+{more})[/dim]" if more else "")


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _steps(steps: Sequence[object]) -> str:
    return ", ".join(WHOLE if step is None else str(step) for step in steps)


def explain_axes(partition: Partition) -> str:
    """What the axes that operators are split by are of their results: `b: dimension 0; co, h: dimension 1; k0: summed over`."""
    meanings: dict[str, dict[str, None]] = {}
    operators = partition.problem.graph.operators
    # Forward operators first: of a backward operator's several results each may say another thing.
    for position in sorted(range(len(operators)), key=lambda p: operators[p].forward is not None):
        access = partition.problem.accesses[position]
        for axis in partition.plan.operators.get(operators[position].name, ()):
            if axis in access.axes and (operators[position].forward is None or axis not in meanings):
                meanings.setdefault(axis, {})[_explain_axis(access, access.axes.index(axis))] = None
    names: dict[str, list[str]] = {}
    for axis, of in sorted(meanings.items()):
        names.setdefault(" or ".join(sorted(of)), []).append(axis)
    return "; ".join(f"{', '.join(axes)}: {meaning}" for meaning, axes in sorted(names.items()))


def _explain_axis(access: OperatorAccess, axis: int) -> str:
    rows = access.outputs[0].rows
    dimensions = [d for d, row in enumerate(rows) if any(moving == axis for moving, _ in row.terms)]
    return f"dimension {dimensions[0]}" if dimensions else "summed over"


def single_device_bytes(partition: Partition) -> int:
    """What MXNet's planner asks for to run the same training graph on one device; nothing is allocated."""
    planned = _mxnet.plan_memory(partition.source.symbol.handle.value, *source_variables(partition.graph))
    return sum(device["arguments"] + device["auxiliary"] + device["pool"] for device in planned.values())


def memory_table(partition: Partition) -> Table:
    """Planned memory of every worker, beside that of one device for the same model."""
    single = single_device_bytes(partition)
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("memory of")
    table.add_column("bytes", justify="right")
    table.add_column("of one device", justify="right")
    table.add_row("one device", format_bytes(single), "100 %")
    for worker, count in enumerate(partition.plan.worker_bytes):
        table.add_row(f"worker {worker}", format_bytes(count), f"{count / single:.0%}")
    return table


def print_partition(console: Console, partition: Partition, max_rows: int | None) -> None:
    """The plan's headline and its two tables."""
    made = partition.plan
    steps = " + ".join(format_bytes(count) for count in made.step_bytes)
    what = "training step" if partition.graph.gradients else "inference"
    console.print(
        f"[bold]{made.workers} workers[/bold] ({' x '.join(map(str, made.factors))}): "
        f"[bold]{format_bytes(made.communication_bytes)}[/bold] move per {what} ({steps}, step by step)"
    )
    if made.communication_seconds is not None:
        levels = " + ".join(
            f"{format_bytes(count)} at {format_bytes(bandwidth)}/s"
            for count, bandwidth in zip(made.level_bytes, made.bandwidths, strict=True)
        )
        console.print(
            f"[bold]{format_seconds(made.communication_seconds)}[/bold] on this interconnect ({levels}, from the top)"
        )
    held = f", {format_bytes(made.search_bytes)} of tables" if made.search_bytes else ""
    console.print(f"{made.algorithm} search, {made.optimality}; {made.search_seconds:.2f} s{held}\n", style="dim")
    console.print(layer_table(partition, max_rows))
    console.print(LEGEND, style="dim")
    if axes := explain_axes(partition):
        console.print(f"Axes, of an operator's result: {axes}.", style="dim", soft_wrap=True)
    console.print()
    console.print(memory_table(partition))


def make_console() -> Console:
    """The terminal; wide enough for the tables where the output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)
