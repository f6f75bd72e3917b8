"""The demo's picture: both loss curves, and the memory of each worker and of one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed

from matplotlib import pyplot
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK, GREY, PALE, BLUE = "#22303c", "#7d8b99", "#c9d3dc", "#1f6fb4"
LAYOUT = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, wspace=0.06)
MIB = 2**20
STYLE = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": PALE,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 24,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


def draw(path: Path, results: Mapping[str, Any]) -> None:
    with pyplot.rc_context(STYLE):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), width_ratios=(3, 2), layout=LAYOUT)
        _draw_losses(left, results["losses"], results["accuracies"])
        _draw_memory(right, results)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)


def _draw_losses(axes: Any, losses: Mapping[str, Sequence[float]], accuracies: Mapping[str, Sequence[float]]) -> None:
    (one, many), steps = losses, range(1, len(next(iter(losses.values()))) + 1)
    axes.plot(steps, losses[one], color="#f0b46a", linewidth=4, solid_capstyle="round", label=_label(one, accuracies))
    axes.plot(steps, losses[many], color=BLUE, linewidth=1.1, label=_label(many, accuracies))
    axes.set_yscale("log")
    axes.set_xlim(0, len(steps) + 1)
    axes.set_xlabel("training step")
    axes.set_ylabel("cross-entropy")
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title("The same loss, step by step")
    gap = max(abs(a - b) for a, b in zip(losses[one], losses[many], strict=True))
    _subtitle(axes, f"largest difference of the two curves: {gap:.1g}")
    axes.legend(frameon=False, loc="upper right")


def _label(title: str, accuracies: Mapping[str, Sequence[float]]) -> str:
    return f"{title}, {accuracies[title][-1]:.1%} right on the test digits"


def _draw_memory(axes: Any, results: Mapping[str, Any]) -> None:
    workers, single = results["worker_bytes"], results["single_device_bytes"]
    names = ["one device", *(f"worker {i}" for i in range(len(workers)))]
    sizes = [count / MIB for count in (single, *workers)]
    bars = axes.barh(names, sizes, color=["#f0b46a", *[BLUE] * len(workers)], height=0.62)
    axes.bar_label(bars, [f"{size:.1f}" for size in sizes], padding=4, color=INK)
    axes.axvline(sizes[0] / len(workers), color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        f"1/{len(workers)} of one device",
        (sizes[0] / len(workers), -0.42),
        xytext=(6, 0),
        textcoords="offset points",
        fontsize=8.5,
        color=INK,
        va="bottom",
    )
    axes.invert_yaxis()
    axes.set_xlim(0, max(sizes) * 1.14)
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("planned memory, MiB")
    axes.set_title("The model divided")
    _subtitle(axes, f"{results['communication_bytes'] / MIB:.1f} MiB move between the workers in each step")


def _subtitle(axes: Any, text: str) -> None:
    axes.annotate(text, (0, 1), xycoords="axes fraction", xytext=(0, 9), textcoords="offset points", color=GREY)
