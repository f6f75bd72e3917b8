"""Draw a simulated step: the kernels and fetches of each worker over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tofu.formatting import format_seconds
from tofu.report.picture import new_figure
from tofu.simulation import Simulation
from tofu.simulation.tasks import is_update

ROWS = {"kernels": ("#2e7d8c", 0.0), "updates": ("#e9a23b", 0.0), "fetches": ("#d1495b", 0.4)}


def plot_timeline(simulation: Simulation, path: str | Path) -> None:
    """Draw the timeline to a file. The ending of `path` selects the format, for example `.png`."""
    figure = new_figure(path, 11, 1.2 + 0.5 * simulation.workers)
    axes = figure.add_subplot()
    updates = is_update(simulation.tasks.work)
    masks = {"kernels": ~simulation.tasks.is_fetch & ~updates, "updates": updates, "fetches": simulation.tasks.is_fetch}
    scale = 1e3  # milliseconds
    for name, (colour, shift) in ROWS.items():
        for worker in range(simulation.workers):
            shown_tasks = np.flatnonzero(
                masks[name] & (simulation.tasks.worker == worker) & (simulation.end > simulation.start)
            )
            spans = [
                (scale * simulation.start[task], scale * (simulation.end[task] - simulation.start[task]))
                for task in shown_tasks.tolist()
            ]
            label = name if worker == 0 else None
            axes.broken_barh(spans, (worker - 0.4 + shift, 0.4), color=colour, linewidth=0, label=label)
    axes.set_yticks(range(simulation.workers), [f"worker {worker}" for worker in range(simulation.workers)])
    axes.invert_yaxis()
    axes.set_xlim(0, scale * simulation.seconds)
    axes.set_xlabel("milliseconds")
    axes.set_title(f"{format_seconds(simulation.seconds)} a step on {simulation.machine}", fontsize="small")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=120)
