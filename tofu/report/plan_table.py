"""Tables of a partition: the split of each layer, the bytes that it moves, and the memory of every worker.

`str(plan)` lists everything. These tables show the model's own layers, each with its backward operators and its
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from rich.console import Console
from rich.table import Table

from tofu.pipeline import Partition
from tofu.plan import format_bytes, format_seconds, format_workers, shorten_line
from tofu.report.alternatives import check_layer, find_alternatives
from tofu.report.console import print_legend
from tofu.report.layers import LayerRow, explain_axes, find_operator, list_layers
from tofu.report.memory import group_workers

REPLICATED, NO_PLAN = "-", "no plan"
LEGEND = (
    "Each round splits over one factor of the number of workers. Operators: the axis that each round splits. Parameters: the dimension. "
    '"-": replicated. Moved: by all workers together, in forward, backward and update.'
)

CAPTION = "All other choices are the best for this split. These plans ignore hints and the memory limit."


def layer_table(partition: Partition, max_rows: int | None = None, has_lines: bool = False) -> Table:
    """Return a table with a row for each layer, and the line of the program if requested.

    Beyond `max_rows`, layers that neither move bytes nor have parameters are dropped first, then the middle.
    """
    layers = list_layers(partition)
    shown = layers
    if max_rows is not None and len(shown) > max_rows:
        shown = [layer for layer in layers if layer.parameters or layer.moved_bytes]
    head, tail = shown, []
    if max_rows is not None and len(shown) > max_rows:
        head, tail = shown[: max_rows // 2], shown[-(max_rows - max_rows // 2) :]
    factors = " x ".join(map(str, partition.plan.factors))
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("layer", overflow="fold")  # shrinks first, with the parameters
    table.add_column("result", style="dim", no_wrap=True)
    table.add_column(f"forward\n{factors}", no_wrap=True)
    table.add_column("backward", no_wrap=True)
    table.add_column("parameters: dimension split", overflow="fold")
    table.add_column("moved", justify="right", no_wrap=True)
    has_lines = has_lines and any(layer.line for layer in layers)
    if has_lines:
        table.add_column("line", style="dim", overflow="fold")
    for layer in head:
        table.add_row(*_cells(layer, has_lines))
    if len(head) + len(tail) < len(layers):
        table.add_row(f"... {len(layers) - len(head) - len(tail)} more", style="dim")
    for layer in tail:
        table.add_row(*_cells(layer, has_lines))
    return table


def _cells(layer: LayerRow, has_lines: bool) -> list[str]:
    return [
        layer.name,
        format_shape(layer.result.shape),
        format_steps(layer.forward),
        "" if layer.backward is None else format_steps(layer.backward),
        _describe_parameters(layer),
        format_bytes(layer.moved_bytes),
        *([shorten_line(layer.line)] if has_lines else []),
    ]


def _describe_parameters(layer: LayerRow) -> str:
    if not layer.parameters:
        return ""
    name, shape, steps = max(layer.parameters, key=lambda parameter: prod(parameter.shape))
    more = len(layer.parameters) - 1
    return f"{name} {format_shape(shape)}: {format_steps(steps)}" + (f" [dim](+{more})[/dim]" if more else "")


def format_shape(shape: Sequence[int]) -> str:
    """64 x 3 x 7 x 7."""
    return " x ".join(map(str, shape))


def format_steps(steps: Sequence[object]) -> str:
    """Return the choice of each round, "-" if replicated: b, -, co."""
    return ", ".join(REPLICATED if step is None else str(step) for step in steps)


def alternatives_table(partition: Partition, layer: str) -> Table:
    """Return a table of plans that split one layer otherwise, each found by a short search."""
    check_layer(layer, partition.graph)
    layer = find_operator(partition, layer)
    alternatives, plan = find_alternatives(partition, layer), partition.plan
    position = partition.searched.problem.graph.operator_index[layer]
    operator = partition.searched.problem.graph.operators[position]
    title = f"{operator.name}, split in every round along"
    table = Table(header_style="bold", box=None, pad_edge=False, title=title, title_justify="left")
    table.caption, table.caption_justify = CAPTION, "left"
    table.add_column("axis")
    table.add_column("in its result", style="dim")
    table.add_column("the plan moves", justify="right")
    table.add_column("more" if plan.communication_seconds is None else "more time", justify="right")
    table.add_column("guarantee", style="dim")
    planned = f"{format_steps(plan.operators[layer])} [dim](as planned)[/dim]"
    table.add_row(planned, "", format_bytes(plan.communication_bytes), "", plan.optimality)
    if not alternatives:
        reason = partition.searched.problem.accesses[position].explain_whole()
        table.caption = f"It cannot be split: {reason}."
    if operator.line:
        table.caption = f"{table.caption} It is at {operator.line}."
    for other in alternatives:
        moved = NO_PLAN if other.communication_bytes is None else format_bytes(other.communication_bytes)
        change = "" if other.change is None else format_change(other.change)
        table.add_row(other.axis, other.meaning, moved, change, other.remark)
    return table


def timings_table(seconds: Mapping[str, float]) -> Table:
    """Return a table of the time of each pass of the pipeline."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("pass")
    table.add_column("seconds", justify="right")
    for name, taken in seconds.items():
        table.add_row(name, f"{taken:.3f}")
    table.add_row("all", f"{sum(seconds.values()):.3f}")
    return table


def format_change(change: float) -> str:
    """Return a relative change as text: +12 %, +0.3 %, 0 %."""
    return "0 %" if change == 0 else f"{100 * change:+.2g} %" if abs(change) < 0.1 else f"{100 * change:+.0f} %"


def memory_table(partition: Partition) -> Table:
    """Return a table of the planned memory of the workers, and of one device for the same model."""
    single = partition.measure_whole()
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column(f"{partition.task.engine.backend.measured} of")
    table.add_column("bytes", justify="right")
    table.add_column("of one device", justify="right")
    table.add_row("one device", format_bytes(single), "100%")
    for workers, count in group_workers(partition.plan.worker_bytes):
        table.add_row(workers, format_bytes(count), f"{count / single:.0%}")
    return table


def print_partition(console: Console, partition: Partition, max_rows: int | None, has_lines: bool = False) -> None:
    """Print the plan's summary and its tables."""
    plan = partition.plan
    rounds = f" ({' + '.join(map(format_bytes, plan.step_bytes))}, round by round)" if plan.step_bytes else ""
    what = "training step" if partition.graph.is_training else "inference"
    console.print(
        f"[bold]{format_workers(plan.factors)}[/bold]: "
        f"[bold]{format_bytes(plan.communication_bytes)}[/bold] moved per {what}{rounds}"
    )
    if plan.communication_seconds is not None:
        levels = " + ".join(
            f"{format_bytes(count)} at {format_bytes(bandwidth)}/s"
            for count, bandwidth in zip(plan.level_bytes, plan.bandwidths, strict=True)
        )
        late = zip(plan.level_waits, plan.latencies, strict=True)
        waits = "".join(f" + {count} fetches of {format_seconds(1e-6 * latency)}" for count, latency in late if latency)
        console.print(
            f"[bold]{format_seconds(plan.communication_seconds)}[/bold] on this interconnect ({levels}{waits}, from the top)"
        )
    held = f", {format_bytes(plan.search_bytes)} of tables" if plan.search_bytes else ""
    console.print(f"{plan.algorithm} search, {plan.optimality}; {plan.search_seconds:.2f} s{held}\n", style="dim")
    if plan.undescribed:
        console.print(f"{plan.describe_undescribed()}\n", soft_wrap=True, markup=False)
    console.print(layer_table(partition, max_rows, has_lines))
    print_legend(console, LEGEND)
    if axes := explain_axes(partition):
        console.print(f"Axes of operators' results: {axes}.", style="dim", soft_wrap=True)
    console.print()
    console.print(memory_table(partition))
