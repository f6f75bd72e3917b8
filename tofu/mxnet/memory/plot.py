"""Draw the memory in use during a step, on one device and on the worker that needs most memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tofu.formatting import format_bytes
from tofu.mxnet.memory.report import USES, DeviceMemory, MemoryReport
from tofu.report.picture import choose_unit, new_figure

HELD = ("parameters", "optimizer states", "inputs and states")
COLOURS = ("#4e5d6c", "#7c8ea0", "#b5c0cb", "#d1495b", "#2e7d8c", "#e9a23b")


def plot_memory(report: MemoryReport, path: str | Path) -> None:
    """Draw a memory report in a picture file. The suffix of `path` selects the format, for example `.png`.

    Raise TofuError if matplotlib is not installed or cannot write the format.
    """
    devices = [report.one_device, *([report.largest] if report.workers else [])]
    figure = new_figure(path, 5.5 * len(devices) + 1.5, 4)
    unit, unit_bytes = choose_unit(device.planned_bytes for device in devices)
    all_axes = figure.subplots(1, len(devices), squeeze=False)[0]
    for axes, device in zip(all_axes, devices, strict=True):
        _draw(axes, device, unit_bytes)
    all_axes[0].set_ylabel(unit)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small", reverse=True)
    figure.savefig(path, dpi=120)


def _draw(axes: Any, device: DeviceMemory, unit_bytes: int) -> None:
    parts, planned = device.at_peak, device.planned_bytes / unit_bytes
    layers = [[parts[name] / unit_bytes] * len(device.nodes) for name in HELD]
    layers += [(use / unit_bytes).tolist() for use in device.uses]
    axes.stackplot(range(len(device.nodes)), layers, labels=[*HELD, *USES], colors=COLOURS, step="post")
    axes.axhline(planned, color="black", linestyle="--", linewidth=1, label="planned")
    axes.plot([device.peak] * 2, [0, planned], color="black", linestyle=":", linewidth=1)
    axes.set_title(f"{device.name}: {format_bytes(device.planned_bytes)}, peak at {device.peak_node}", fontsize="small")
    axes.set_xlabel("operators and fetches, in order")
    axes.margins(x=0)
