"""The memory of a training step as a table: its parts as rows, devices as columns; and whether it fits into a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.table import Table

from tofu.plan import format_bytes
from tofu.report.console import print_legend, print_to_text
from tofu.sizes import format_limit, read_bytes


class Device(Protocol):
    """What one device needs for a step, as each engine counts it."""

    @property
    def name(self) -> str:
        """Which device it is: "one device" or "worker 3"."""

    @property
    def parts(self) -> Mapping[str, int]:
        """The bytes of each part, by its title. Those of parts that no device has are not shown."""

    @property
    def total(self) -> tuple[str, int]:
        """What the parts amount to: what it is called, and bytes."""

    @property
    def facts(self) -> Mapping[str, int | str]:
        """What else there is to say, bytes or text, by its title."""

    @property
    def needed_bytes(self) -> int:
        """The bytes that the device must have."""


class Report(ABC):
    """The memory of one device that runs the whole step, and of the workers."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """A line above the table, or ""."""

    @property
    @abstractmethod
    def heading(self) -> str:
        """What the table shows: the title of its first column."""

    @property
    @abstractmethod
    def legend(self) -> str:
        """What the rows mean."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[tuple[str, Device]]:
        """The devices of the table, each with its title. The first runs the whole step."""

    @property
    @abstractmethod
    def largest(self) -> Device:
        """The worker that needs most, or the one device."""

    def fits(self, device_bytes: float | str) -> bool:
        """Return True if so many bytes, or a size like "12GB", are enough for every worker. Raise PlanError for anything else."""
        return self.largest.needed_bytes <= read_bytes(device_bytes, "device_bytes")

    def describe_fit(self, device_bytes: int) -> str:
        """Return whether one device and the workers have enough with so many bytes each."""
        devices = {device.name: device for device in (self.columns[0][1], self.largest)}
        return "\n".join(
            f"{name} needs {format_bytes(device.needed_bytes)}: it "
            f"{'fits' if device.needed_bytes <= device_bytes else 'does not fit'} into {format_limit(device_bytes)}."
            for name, device in devices.items()
        )

    def __str__(self) -> str:
        return print_to_text(lambda console: print_report(console, self))


def make_table(report: Report) -> Table:
    """Return the table: parts as rows, devices as columns, with the share of the single device's bytes."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column(report.heading)
    for title, _ in report.columns:
        table.add_column(title, justify="right", overflow="fold")
    devices = [device for _, device in report.columns]
    for part in devices[0].parts:
        counts = [device.parts[part] for device in devices]
        if any(counts):
            table.add_row(part, *map(format_bytes, counts))
    table.add_section()
    name, whole = devices[0].total
    table.add_row(name, *(format_bytes(device.total[1]) for device in devices), style="bold")
    table.add_row("of one device", *(f"{device.total[1] / max(whole, 1):.1%}" for device in devices))
    for title in devices[0].facts:
        facts = [device.facts[title] for device in devices]
        table.add_row(title, *(fact if isinstance(fact, str) else format_bytes(fact) for fact in facts))
    return table


def print_report(console: Console, report: Report) -> None:
    """Print the headline, the table and what it means."""
    if report.headline:
        console.print(f"{report.headline}\n")
    console.print(make_table(report))
    print_legend(console, report.legend)
