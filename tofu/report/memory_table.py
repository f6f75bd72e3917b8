"""A memory report as a table: one device beside the workers, part by part at the peak."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table

from tofu.plan import format_bytes
from tofu.planning.fitting import format_limit
from tofu.report.memory import DeviceMemory, MemoryReport

LEGEND = """
Parts are what they take at the peak, the operator or fetch at which most is in use. Idle: buffers that are free just then. Parameters to
idle are allocated, to the byte. Workspace, what convolutions ask for while they run, is an estimate.
"""


def memory_report_table(report: MemoryReport) -> Table:
    """Parts as rows; one column for one device and one for each kind of worker, with its share of the single device's bytes."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("at the peak")
    devices = [("one device", report.one_device), *_list_kinds(report.workers)]
    for title, _ in devices:
        table.add_column(title, justify="right", overflow="fold")
    for part in report.one_device.at_peak:
        table.add_row(part, *(format_bytes(device.at_peak[part]) for _, device in devices))
    table.add_section()
    table.add_row("planned", *(format_bytes(device.planned_bytes) for _, device in devices), style="bold")
    whole = max(report.one_device.planned_bytes, 1)
    table.add_row("of one device", *(f"{device.planned_bytes / whole:.1%}" for _, device in devices))
    table.add_row("workspace, about", *(format_bytes(device.workspace_bytes) for _, device in devices))
    table.add_row("all gradients", *(format_bytes(device.gradients_bytes) for _, device in devices))
    table.add_row("the peak is at", *(device.peak_node for _, device in devices), style="dim")
    return table


def _list_kinds(workers: tuple[DeviceMemory, ...]) -> Iterator[tuple[str, DeviceMemory]]:
    """Workers that need the same at the peak, together: their numbers, and the first of them."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    for number, worker in enumerate(workers):
        kinds.setdefault((*worker.at_peak.values(), worker.workspace_bytes), []).append(number)
    for numbers in kinds.values():
        yield f"worker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}", workers[numbers[0]]


def describe_fit(report: MemoryReport, device_bytes: int) -> str:
    """Whether one device and the workers have enough with so many bytes each."""
    have = format_limit(device_bytes)
    lines = []
    for device in (report.one_device, *([report.largest] if report.workers else [])):
        needed = f"{device.name} needs {format_bytes(device.needed_bytes)}"
        does = "fits" if device.needed_bytes <= device_bytes else "does not fit"
        lines.append(f"{needed}: it {does} into {have}.")
    return "\n".join(lines)


def describe_fewest(fitting: MemoryReport) -> str:
    """The fewest workers that fit, where the report asked for does not."""
    count = len(fitting.workers)
    if not count:
        return "One device is enough."
    return (
        f"{count} workers are the fewest that fit: each needs {format_bytes(fitting.largest.needed_bytes)}, "
        f"and they move {format_bytes(fitting.communication_bytes)} in a step."
    )


def print_report(console: Console, report: MemoryReport) -> None:
    """The headline, the table and what it means."""
    moved = format_bytes(report.communication_bytes)
    workers = f"{len(report.workers)} workers, which move {moved} in a step" if report.workers else "one device"
    console.print(f"[bold]Memory of a training step[/bold] with {report.optimizer}: {workers}\n")
    console.print(memory_report_table(report))
    console.print(LEGEND, style="dim")


def format_report(report: MemoryReport) -> str:
    """The same as text."""
    text = StringIO()
    print_report(Console(file=text, width=160, highlight=False), report)
    return text.getvalue()
