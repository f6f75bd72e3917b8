"""Draws docs/tofu.svg, the picture of the README: one layer, split over workers along each of its axes.

    python docs/picture.py

The drawing of a matrix product follows its computation: the output cell in row b, column co is row b of the data times column co of
the weight. A colour is a worker; an area shows what the worker holds or computes; pale grey is needed by several.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.patches import FancyBboxPatch, Rectangle

INK, GREY, PALE = "#22303c", "#6b7985", "#dfe6ec"
WORKERS = ("#2f7fc1", "#f0a04b", "#4aa786", "#b565a7")
B, CI, CO, GAP = 2.0, 1.7, 2.3, 0.45  # extents of the axes, and the space between the matrices

# Matrix -> lower left corner and size, laid out as a product.
MATRICES = {
    "data": (0.0, 0.0, CI, B),
    "weight": (CI + GAP, B + GAP, CO, CI),
    "output": (CI + GAP, 0.0, CO, B),
}

LABEL = {"boxstyle": "round,pad=0.28", "facecolor": "white", "edgecolor": "none", "alpha": 0.88}

Cut = tuple[str, float, float, float, float, str]


def parts(matrix: str, columns: int, rows: int, colours: list[str]) -> list[Cut]:
    """Draw a matrix cut into columns x rows; `colours` from the upper left, row by row."""
    x, y, width, height = MATRICES[matrix]
    return [
        (
            matrix,
            x + column * width / columns,
            y + height - (row + 1) * height / rows,
            width / columns,
            height / rows,
            colours[row * columns + column],
        )
        for row in range(rows)
        for column in range(columns)
    ]


BLUE, ORANGE, GREEN, PURPLE = WORKERS
PANELS: list[tuple[str, str, list[Cut]]] = [
    (
        "split along b",
        "each worker computes its rows;\nthe weight is fetched",
        parts("data", 1, 2, [BLUE, ORANGE]) + parts("weight", 1, 1, [PALE]) + parts("output", 1, 2, [BLUE, ORANGE]),
    ),
    (
        "split along co",
        "each worker computes its columns;\nthe data is fetched",
        parts("data", 1, 1, [PALE]) + parts("weight", 2, 1, [BLUE, ORANGE]) + parts("output", 2, 1, [BLUE, ORANGE]),
    ),
    (
        "split along ci",
        "nothing is fetched before;\nthe partial results are added",
        parts("data", 2, 1, [BLUE, ORANGE]) + parts("weight", 1, 2, [BLUE, ORANGE]),
    ),
    (
        "b, then co: 4 workers",
        "rows first, then columns:\nhalf of each is fetched",
        parts("data", 1, 2, [PALE, PALE])
        + parts("weight", 2, 1, [PALE, PALE])
        + parts("output", 2, 2, [BLUE, ORANGE, GREEN, PURPLE]),
    ),
]


def draw_panel(axes: Any, title: str, caption: str, cuts: list[Cut]) -> None:
    """One way of splitting: three matrices and what it costs."""
    for _, x, y, width, height, colour in cuts:
        axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="white", linewidth=1.6))
    if "output" not in {cut[0] for cut in cuts}:
        draw_partial_results(axes)
    for name, (x, y, width, height) in MATRICES.items():
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=INK, linewidth=1))
        axes.text(x + width / 2, y + height / 2, name, ha="center", va="center", fontsize=10, color=INK, bbox=LABEL)
    for text, x, y in (("b", -0.2, B / 2), ("ci", CI / 2, -0.28), ("co", CI + GAP + CO / 2, -0.28)):
        axes.text(x, y, text, ha="center", va="center", fontsize=9.5, style="italic", color=GREY)
    axes.text(
        CI + GAP - 0.22, B + GAP + CI / 2, "ci", ha="center", va="center", fontsize=9.5, style="italic", color=GREY
    )
    axes.text(-0.3, B + GAP + CI + 0.42, title, fontsize=12, weight="bold", color=INK)
    axes.text(-0.3, -0.75, caption, fontsize=10, color=GREY, va="top", linespacing=1.35)
    axes.set_xlim(-0.5, CI + GAP + CO + 0.35)
    axes.set_ylim(-1.75, B + GAP + CI + 0.85)
    axes.set_aspect("equal")
    axes.axis("off")


def draw_partial_results(axes: Any) -> None:
    """Draw an output of which each worker has a partial sum: two sheets, one behind the other."""
    x, y, width, height = MATRICES["output"]
    axes.add_patch(Rectangle((x + 0.17, y + 0.17), width, height, facecolor=ORANGE, edgecolor=INK, linewidth=1))
    axes.add_patch(Rectangle((x, y), width, height, facecolor=BLUE, edgecolor=INK, linewidth=1))
    axes.text(x + width + 0.33, y + height / 2, "+", fontsize=15, color=INK, ha="center", va="center")


def main() -> None:
    """Write docs/tofu.svg."""
    settings = {"svg.hashsalt": "tofu", "svg.fonttype": "path", "font.family": "DejaVu Sans"}
    with pyplot.rc_context(settings):
        figure, panels = pyplot.subplots(1, len(PANELS), figsize=(13.2, 4.3))
        figure.subplots_adjust(left=0.015, right=0.985, top=0.97, bottom=0.02, wspace=0.06)
        figure.patch.set_alpha(0)
        background = FancyBboxPatch(
            (0.004, 0.012),
            0.992,
            0.976,
            boxstyle="round,pad=0,rounding_size=0.012",
            transform=figure.transFigure,
            facecolor="white",
            edgecolor=PALE,
            linewidth=1,
            zorder=-1,
            mutation_aspect=3,
        )
        figure.add_artist(background)
        for axes, panel in zip(panels, PANELS, strict=True):
            draw_panel(axes, *panel)
        figure.savefig(Path(__file__).parent / "tofu.svg", metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    main()
