"""A memory report as a picture: what is in use over the course of a step, on one device and on the worker that needs most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tofu.errors import TofuError
from tofu.report.memory import USES, DeviceMemory, MemoryReport

GIB = 2**30
HELD = ("parameters", "optimizer states", "inputs and states")
COLOURS = ("#4e5d6c", "#7c8ea0", "#b5c0cb", "#d1495b", "#2e7d8c", "#e9a23b")


def plot_memory(report: MemoryReport, path: str | Path) -> None:
    """Write the picture; the ending of `path` says in which format. Raises TofuError without matplotlib, or for another ending."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TofuError("The plot needs matplotlib: pip install matplotlib.") from error
    devices = [report.one_device, *([report.largest] if report.workers else [])]
    figure = Figure(figsize=(5.5 * len(devices), 4), layout="constrained")
    for axes, device in zip(figure.subplots(1, len(devices), squeeze=False)[0], devices, strict=True):
        _draw(axes, device)
    figure.get_axes()[0].set_ylabel("GiB")
    figure.get_axes()[-1].legend(loc="lower right", fontsize="small")
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise TofuError(f"{path}: {error}") from error


def _draw(axes: Any, device: DeviceMemory) -> None:
    parts = device.at_peak
    layers = [[parts[name] / GIB] * len(device.nodes) for name in HELD]
    layers += [(use / GIB).tolist() for use in device.uses]
    axes.stackplot(range(len(device.nodes)), layers, labels=[*HELD, *USES], colors=COLOURS, step="post")
    axes.axhline(device.planned_bytes / GIB, color="black", linestyle="--", linewidth=1, label="planned")
    axes.plot([device.peak] * 2, [0, device.planned_bytes / GIB], color="black", linestyle=":", linewidth=1)
    axes.set_title(f"{device.name}: {device.planned_bytes / GIB:.2f} GiB, peak at {device.peak_node}", fontsize="small")
    axes.set_xlabel("operators and fetches, in order")
    axes.margins(x=0)
