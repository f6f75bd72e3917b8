"""Print the tables of `python -m tofu plan`: the split of each layer, its communication, and the memory of each worker.

`str(plan)` lists every operator and tensor. These tables have one row for each layer, including its backward operators
and parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from rich.console import Console
from rich.table import Table

from tofu.engine import Backend
from tofu.formatting import format_bytes, format_seconds, format_workers, shorten_line
from tofu.pipeline import Partition
from tofu.report.alternatives import find_alternatives, find_layer
from tofu.report.console import new_table, print_legend, print_to_text
from tofu.report.layers import LayerRow, explain_axes, list_layers
from tofu.report.memory import group_workers

REPLICATED = "-"
DEFAULT_ROWS = 60
COLUMNS, BACKWARD = 7, 3  # number of columns, position of "backward"
LEGEND = (
    "A round splits over one factor of the number of workers. It splits operators along the axis listed, and parameters along the "
    'dimension listed; "-" is replicated. "moved" counts the bytes between all workers, in forward, backward and update.'
)
CAPTION = "Each plan splits all other layers as is best for this split. These plans ignore hints and the memory limit."


def choose_rows(layers: list[LayerRow], most: int | None) -> tuple[list[LayerRow], list[LayerRow]]:
    """Choose at most `most` layers for a table. Return the first rows and the last rows.

    Layers without transfers and parameters are dropped first, then layers in the middle.
    """
    if most is None or len(layers) <= most:
        return layers, []
    candidates = [layer for layer in layers if layer.parameters or layer.moved_bytes]
    if len(candidates) <= most:
        return candidates, []
    return candidates[: most // 2], candidates[-(most - most // 2) :]


def layer_table(
    head: Sequence[LayerRow], tail: Sequence[LayerRow], omitted: int, factors: Sequence[int], has_lines: bool = False
) -> Table:
    """Return a table with a row for each layer, without empty columns.

    The layers in `head` come first, then a row that counts the `omitted` layers, then `tail`. If `has_lines` is True,
    the last column is the line of the program.
    """
    rounds = " x ".join(map(str, factors))
    rows = [_list_cells(layer, has_lines) for layer in (*head, *tail)]
    is_shown = [n == 0 or any(row[n] for row in rows) for n in range(COLUMNS)]
    forward = "forward" if is_shown[BACKWARD] else "split"
    columns: list[dict[str, Any]] = [
        {"header": "layer", "overflow": "fold"},  # on a narrow terminal, this column and the parameters shrink first
        {"header": "result", "style": "dim", "no_wrap": True},
        {"header": f"{forward}\n{rounds}", "no_wrap": True},
        {"header": "backward", "no_wrap": True},
        {"header": "parameters: dimension split", "overflow": "fold"},
        {"header": "moved", "justify": "right", "no_wrap": True},
        {"header": "line", "style": "dim", "overflow": "fold"},
    ]
    table = new_table()
    for column in compress(columns, is_shown):
        table.add_column(**column)
    for number, row in enumerate(rows):
        if omitted and number == len(head):
            table.add_row(f"... {omitted} more", style="dim")
        table.add_row(*compress(row, is_shown))
    if omitted and not tail:
        table.add_row(f"... {omitted} more", style="dim")
    return table


def _list_cells(layer: LayerRow, has_lines: bool) -> list[str]:
    return [
        layer.name,
        format_shape(layer.result.shape),
        format_choice(layer.forward),
        "" if layer.backward is None else format_choice(layer.backward),
        _describe_parameters(layer),
        format_bytes(layer.moved_bytes),
        shorten_line(layer.line) if has_lines else "",
    ]


def _describe_parameters(layer: LayerRow) -> str:
    if layer.largest_parameter is None:
        return ""
    name, shape, layout = layer.largest_parameter
    other_count = len(layer.parameters) - 1
    others = f" [dim](and {other_count} more)[/dim]" if other_count else ""
    return f"{name} {format_shape(shape)}: {format_choice(layout)}{others}"


def format_shape(shape: Sequence[int]) -> str:
    """Return a shape as text: 64 x 3 x 7 x 7."""
    return " x ".join(map(str, shape))


def format_choice(choice: Sequence[object]) -> str:
    """Return the split of each round as text: "b, -, co" for ("b", None, "co")."""
    return ", ".join(REPLICATED if split is None else str(split) for split in choice)


def alternatives_table(partition: Partition, layer: str) -> Table:
    """Return a table with the best plan for each axis of `layer`, from a short search."""
    layer = find_layer(layer, partition.searched.problem).name
    alternatives, plan = find_alternatives(partition, layer), partition.plan
    position = partition.searched.problem.graph.operator_index[layer]
    operator = partition.searched.problem.graph.operators[position]
    table = new_table("axis", title=f"{operator.name}, split in every round along")
    table.caption, table.caption_justify = CAPTION, "left"
    table.add_column("in its result", style="dim")
    table.add_column("the plan moves", justify="right")
    table.add_column("more" if plan.communication_seconds is None else "more time", justify="right")
    table.add_column("guarantee", style="dim")
    planned = f"{format_choice(plan.operators[layer])} [dim](as planned)[/dim]"
    table.add_row(planned, "", format_bytes(plan.communication_bytes), "", plan.optimality)
    if not alternatives:
        reason = partition.searched.problem.accesses[position].explain_whole()
        table.caption = f"It cannot be split: {reason}."
    if operator.line:
        table.caption = f"{table.caption} It is at {operator.line}."
    for alternative in alternatives:
        texts = alternative.meaning, alternative.moved_text, alternative.change_text, alternative.remark
        table.add_row(alternative.axis, *texts)
    return table


def timings_table(seconds: Mapping[str, float]) -> Table:
    """Return a table of the seconds that each pass (stage) of the planner took."""
    table = new_table("pass")
    table.add_column("seconds", justify="right")
    for name, taken in seconds.items():
        table.add_row(name, f"{taken:.3f}")
    table.add_row("all", f"{sum(seconds.values()):.3f}")
    return table


def print_memory(console: Console, partition: Partition) -> None:
    """Print the planned memory of each worker, compared with one device that runs the whole model."""
    single, backend = partition.measure_whole(), partition.task.engine.backend
    table = new_table(f"{backend.measured} of")
    table.add_column("bytes", justify="right")
    table.add_column("of one device", justify="right")
    table.add_row("one device", format_bytes(single), "100%")
    for workers, count in group_workers(partition.plan.worker_bytes):
        table.add_row(workers, format_bytes(count), f"{count / single:.0%}")
    console.print(table)
    if note := describe_unmeasured(backend):
        console.print(f"\n{note}", style="dim", soft_wrap=True)


def describe_unmeasured(backend: Backend) -> str:
    """Return a sentence about memory that `backend` does not count, or ""."""
    if not backend.unmeasured:
        return ""
    return f"Not counted: {backend.unmeasured}; `python -m tofu memory` adds them."


def write_plan_table(partition: Partition, max_rows: int | None = DEFAULT_ROWS, has_lines: bool = False) -> str:
    """Return the plan's summary and its tables as text."""
    return print_to_text(lambda console: print_partition(console, partition, max_rows, has_lines))


def print_partition(console: Console, partition: Partition, max_rows: int | None, has_lines: bool = False) -> None:
    """Print the plan's summary and its tables."""
    plan = partition.plan
    rounds = f" ({' + '.join(map(format_bytes, plan.step_bytes))}, round by round)" if plan.step_bytes[1:] else ""
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
        waits = "".join(
            f" + {count} fetches of {format_seconds(1e-6 * latency)}"
            for count, latency in zip(plan.level_waits, plan.latencies, strict=True)
            if latency
        )
        console.print(
            f"[bold]{format_seconds(plan.communication_seconds)}[/bold] on this interconnect ({levels}{waits}, from the top)"
        )
    memory_note = f" with {format_bytes(plan.search_bytes)} of memory" if plan.search_bytes else ""
    console.print(
        f"{plan.algorithm} search, {plan.optimality}; {plan.search_seconds:.2f} s{memory_note}\n", style="dim"
    )
    if plan.undescribed:
        console.print(f"{plan.describe_undescribed()}\n", soft_wrap=True, markup=False)
    layers = list_layers(partition)
    head, tail = choose_rows(layers, max_rows)
    shown_layers = [*head, *tail]
    console.print(layer_table(head, tail, len(layers) - len(shown_layers), plan.factors, has_lines))
    axes = explain_axes(partition, shown_layers)
    print_legend(console, f"{LEGEND} Axes in the results: {axes}." if axes else LEGEND)
    print_memory(console, partition)
