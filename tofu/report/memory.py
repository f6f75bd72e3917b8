"""Print the memory of a training step as a table, with a column for each device. Each engine fills in the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import ClassVar, Protocol, TypeVar

from rich.console import Console
from rich.table import Table

from tofu.formatting import format_bytes
from tofu.report.console import new_table, print_legend, print_to_text
from tofu.sizes import format_limit, read_bytes

T = TypeVar("T")


class Device(Protocol):
    """Memory of one device."""

    @property
    def name(self) -> str:
        """The name of the device, such as "worker 3"."""

    @property
    def parts(self) -> Mapping[str, int]:
        """The rows above the sum: bytes by title, such as {"parameters": 1024}."""

    @property
    def total(self) -> tuple[str, int]:
        """The row with the sum: title and bytes, such as ("planned", 4096)."""

    @property
    def facts(self) -> Mapping[str, int | str]:
        """The rows below the sum: bytes or text by title, such as {"all gradients": 4096}."""

    @property
    def needed_bytes(self) -> int:
        """The bytes of memory that the device must have."""


class MemoryComparison(ABC):
    """Memory of each worker, compared with one device that runs the whole step.

    Attributes
    ----------
    heading
        The title of the first column.
    legend
        Explanations of rows, by title. The title "" is for the whole table.
    """

    heading: ClassVar[str]
    legend: ClassVar[Mapping[str, str]]

    @property
    def headline(self) -> str:
        """A line above the table, or ""."""
        return ""

    @property
    @abstractmethod
    def columns(self) -> Sequence[tuple[str, Device]]:
        """The title and the device of each column. The first device runs the whole step alone."""

    @property
    @abstractmethod
    def largest(self) -> Device:
        """The worker that needs most memory, or the one device if there are no workers."""

    def fits(self, device_bytes: float | str) -> bool:
        """Return True if no worker needs more than `device_bytes`, a number or a text such as "12GB"."""
        return self.largest.needed_bytes <= read_bytes(device_bytes, "device_bytes")

    def describe_fit(self, device_bytes: int) -> str:
        """Return text that states if `device_bytes` are enough, for one device and for the largest worker."""
        devices = {device.name: device for device in (self.columns[0][1], self.largest)}
        return "\n".join(
            f"{name} needs {format_bytes(device.needed_bytes)}: it "
            f"{'fits' if device.needed_bytes <= device_bytes else 'does not fit'} into {format_limit(device_bytes)}."
            for name, device in devices.items()
        )

    def __str__(self) -> str:
        return print_to_text(lambda console: print_report(console, self))


def make_table(comparison: MemoryComparison) -> tuple[Table, str]:
    """Return the table and its legend."""
    table = new_table(comparison.heading)
    for title, _ in comparison.columns:
        table.add_column(title, justify="right", overflow="fold")
    devices, shown_titles = [device for _, device in comparison.columns], [""]

    def add_row(title: str, values: Sequence[int | str]) -> None:
        if any(values):
            shown_titles.append(title)
            table.add_row(title, *(value if isinstance(value, str) else format_bytes(value) for value in values))

    for part in devices[0].parts:
        add_row(part, [device.parts[part] for device in devices])
    table.add_section()
    name, one_device_bytes = devices[0].total
    table.add_row(name, *(format_bytes(device.total[1]) for device in devices), style="bold")
    table.add_row("of one device", *(f"{device.total[1] / max(one_device_bytes, 1):.1%}" for device in devices))
    for title in devices[0].facts:
        add_row(title, [device.facts[title] for device in devices])
    return table, " ".join(text for title, text in comparison.legend.items() if title in shown_titles)


def print_report(console: Console, comparison: MemoryComparison) -> None:
    """Print the headline, the table and its legend."""
    if comparison.headline:
        console.print(f"{comparison.headline}\n")
    table, legend = make_table(comparison)
    console.print(table)
    print_legend(console, legend)


def name_workers(numbers: Sequence[int]) -> str:
    """Return a title for the workers with these numbers.

    >>> name_workers([2]), name_workers([0, 1]), name_workers([1, 3, 4, 5])
    ('worker 2', 'workers 0, 1', 'workers 1, 3 to 5')
    """
    runs = ([n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]))
    texts = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"worker{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"


def group_workers(values: Sequence[T]) -> list[tuple[str, T]]:
    """Group workers with equal values. Return pairs such as ("workers 0, 1", value)."""
    workers_by_value: dict[T, list[int]] = {}
    for number, value in enumerate(values):
        workers_by_value.setdefault(value, []).append(number)
    return [(name_workers(numbers), value) for value, numbers in workers_by_value.items()]
