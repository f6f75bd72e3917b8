"""What a memory report says of a given device memory, in words: who fits, and how many workers it takes."""

from __future__ import annotations

from tofu.plan import format_bytes
from tofu.report.memory import MemoryReport
from tofu.sizes import format_limit


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
