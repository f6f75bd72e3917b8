"""A partition as tables for people: how each layer is split, what it moves, and what every worker holds.

`str(plan)` lists everything; these tables show the model's own layers, each with its backward operators and its
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
from tofu.report.layers import Layer, explain_axes, find_operator, list_layers

WHOLE = "-"
LEGEND = """
A step is a factor of the number of workers. Operators: the axis split at each step. Parameters: the dimension.
"-": whole on every worker. Moved: forward, backward and update, all workers together.\
"""

CAPTION = "Everything else is split as is best then; hints and a memory limit do not hold for these plans."


def layer_table(partition: Partition, max_rows: int | None = None, has_lines: bool = False) -> Table:
    """One row per layer, with the line of the program if asked for. Beyond `max_rows`, layers that neither move bytes nor have parameters
    go, then the middle.
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
    table.add_column("layer", overflow="fold")  # this and the parameters make way first
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


def _cells(layer: Layer, has_lines: bool) -> list[str]:
    return [
        layer.name,
        format_shape(layer.result.shape),
        format_steps(layer.forward),
        "" if layer.backward is None else format_steps(layer.backward),
        _describe_parameters(layer),
        format_bytes(layer.moved_bytes) if layer.moved_bytes else WHOLE,
        *([shorten_line(layer.line)] if has_lines else []),
    ]


def _describe_parameters(layer: Layer) -> str:
    """The largest parameter, and how many smaller ones there are."""
    if not layer.parameters:
        return ""
    name, shape, steps = max(layer.parameters, key=lambda parameter: prod(parameter.shape))
    more = len(layer.parameters) - 1
    return f"{name} {format_shape(shape)}: {format_steps(steps)}" + (f" [dim](+{more})[/dim]" if more else "")


def format_shape(shape: Sequence[int]) -> str:
    """64 x 3 x 7 x 7."""
    return " x ".join(map(str, shape))


def format_steps(steps: Sequence[object]) -> str:
    """The choice at each step, "-" where it leaves whole: b, -, co."""
    return ", ".join(WHOLE if step is None else str(step) for step in steps)


def alternatives_table(partition: Partition, layer: str) -> Table:
    """What the whole plan moves with one layer split otherwise; searched now, a moment for each axis."""
    check_layer(layer, partition.graph)
    layer = find_operator(partition, layer)
    alternatives, plan = find_alternatives(partition, layer), partition.plan
    position = partition.searched.problem.graph.operator_index[layer]
    operator = partition.searched.problem.graph.operators[position]
    title = f"{operator.name}, split at every step along"
    table = Table(header_style="bold", box=None, pad_edge=False, title=title, title_justify="left")
    table.caption, table.caption_justify = CAPTION, "left"
    table.add_column("axis")
    table.add_column("of its result", style="dim")
    table.add_column("the plan moves", justify="right")
    table.add_column("more" if plan.communication_seconds is None else "more time", justify="right")
    table.add_column("known of it", style="dim")
    planned = f"{format_steps(plan.operators[layer])} [dim](as planned)[/dim]"
    table.add_row(planned, "", format_bytes(plan.communication_bytes), "", plan.optimality)
    if not alternatives:
        reason = partition.searched.problem.accesses[position].explain_whole()
        table.caption = f"It cannot be split: {reason}."
    if operator.line:
        table.caption = f"{table.caption} It is at {operator.line}."
    for one in alternatives:
        moved = WHOLE if one.communication_bytes is None else format_bytes(one.communication_bytes)
        table.add_row(one.axis, one.meaning, moved, "" if one.change is None else format_change(one.change), one.remark)
    return table


def timings_table(seconds: Mapping[str, float]) -> Table:
    """The passes of the pipeline, and what each took."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("pass")
    table.add_column("seconds", justify="right")
    for name, taken in seconds.items():
        table.add_row(name, f"{taken:.3f}")
    table.add_row("all", f"{sum(seconds.values()):.3f}")
    return table


def format_change(change: float) -> str:
    """A share more or less, as a person reads it: +12 %, +0.3 %, 0 %."""
    return "0 %" if change == 0 else f"{100 * change:+.2g} %" if abs(change) < 0.1 else f"{100 * change:+.0f} %"


def memory_table(partition: Partition) -> Table:
    """Planned memory of every worker, beside that of one device for the same model."""
    single = partition.measure_whole()
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column(f"{partition.task.engine.backend.measured} of")
    table.add_column("bytes", justify="right")
    table.add_column("of one device", justify="right")
    table.add_row("one device", format_bytes(single), "100%")
    for worker, count in enumerate(partition.plan.worker_bytes):
        table.add_row(f"worker {worker}", format_bytes(count), f"{count / single:.0%}")
    return table


def print_partition(console: Console, partition: Partition, max_rows: int | None, has_lines: bool = False) -> None:
    """The plan's headline and its two tables."""
    made = partition.plan
    steps = f" ({' + '.join(map(format_bytes, made.step_bytes))}, step by step)" if made.step_bytes else ""
    what = "training step" if partition.graph.is_training else "inference"
    console.print(
        f"[bold]{format_workers(made.factors)}[/bold]: "
        f"[bold]{format_bytes(made.communication_bytes)}[/bold] move per {what}{steps}"
    )
    if made.communication_seconds is not None:
        levels = " + ".join(
            f"{format_bytes(count)} at {format_bytes(bandwidth)}/s"
            for count, bandwidth in zip(made.level_bytes, made.bandwidths, strict=True)
        )
        late = zip(made.level_waits, made.latencies, strict=True)
        waits = "".join(f" + {count} fetches of {format_seconds(1e-6 * latency)}" for count, latency in late if latency)
        console.print(
            f"[bold]{format_seconds(made.communication_seconds)}[/bold] on this interconnect ({levels}{waits}, from the top)"
        )
    held = f", {format_bytes(made.search_bytes)} of tables" if made.search_bytes else ""
    console.print(f"{made.algorithm} search, {made.optimality}; {made.search_seconds:.2f} s{held}\n", style="dim")
    if made.undescribed:
        console.print(f"{made.describe_undescribed()}\n", soft_wrap=True, markup=False)
    console.print(layer_table(partition, max_rows, has_lines))
    console.print(LEGEND, style="dim")
    if axes := explain_axes(partition):
        console.print(f"Axes, of an operator's result: {axes}.", style="dim", soft_wrap=True)
    console.print()
    console.print(memory_table(partition))
