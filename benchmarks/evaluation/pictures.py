"""The pictures of the evaluation, drawn as the paper draws its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.evaluation.measure import Planned
from benchmarks.evaluation.policies import OF_TENSORFLOW, Outcome
from tofu.report.picture import new_figure


def draw_throughput(measured: Mapping[str, Mapping[str, Outcome]], path: Path) -> None:
    """Figures 8 and 9: the part of the ideal throughput that each way to train reaches, samples per second on top of the bars."""
    policies = [
        p
        for p in dict.fromkeys(p for outcomes in measured.values() for p in outcomes)
        if p not in ("ideal", OF_TENSORFLOW.name)
    ]
    figure = new_figure(path, max(7, 0.9 * len(measured)), 4.5)
    axes = figure.add_subplot()
    width = 0.8 / len(policies)
    for number, policy in enumerate(policies):
        for place, outcomes in enumerate(measured.values()):
            if (one := outcomes.get(policy)) is None:
                continue
            height = one.throughput / outcomes["ideal"].throughput
            left = place - 0.4 + (number + 0.5) * width
            axes.bar(
                left,
                height,
                width,
                color=f"C{number}",
                label=policy if place == 0 or policy not in _drawn(axes) else None,
            )
            axes.text(
                left,
                height,
                f"{one.throughput:.3g}" if one.fits else "OOM",
                rotation=90,
                fontsize=6,
                ha="center",
                va="bottom",
            )
    axes.set_xticks(range(len(measured)), list(measured), rotation=45, ha="right", fontsize=7)
    axes.set_ylabel("part of the ideal throughput")
    axes.set_ylim(0, 1.25)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(policies))
    figure.savefig(path)


def _drawn(axes: object) -> list[str]:
    return list(axes.get_legend_handles_labels()[1])  # type: ignore[attr-defined]


def draw_algorithms(planned: Sequence[Planned], path: Path) -> None:
    """Figure 10: seconds of a step by algorithm, computation below, communication striped above."""
    models = list(dict.fromkeys(one.model for one in planned))
    figure = new_figure(path, 4.5 * len(models), 4)
    for number, model in enumerate(models, 1):
        axes = figure.add_subplot(1, len(models), number)
        own = [one for one in planned if one.model == model]
        for place, one in enumerate(own):
            axes.bar(place, one.computing, color="C0")
            axes.bar(
                place, one.seconds - one.computing, bottom=one.computing, color="white", edgecolor="C0", hatch="//"
            )
            text = f"{one.overhead:.0%}" if one.fits else "OOM" if one.seconds else "no plan"
            axes.text(place, one.seconds, text, ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(own)), [one.algorithm for one in own], rotation=45, ha="right", fontsize=8)
        axes.set_title(model)
        axes.set_ylabel("seconds of a step")
    figure.savefig(path)
