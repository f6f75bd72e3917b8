"""Figures 8 to 10, drawn as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.evaluation.measure import AlgorithmResult
from benchmarks.evaluation.policies import PolicyOutcome
from tofu.report.picture import new_figure


def draw_throughput(outcomes: Mapping[str, Mapping[str, PolicyOutcome]], path: Path) -> None:
    """Draw Figures 8 and 9: each policy's throughput as a share of the ideal, labelled with samples per second."""
    policies = [p for p in dict.fromkeys(policy for own in outcomes.values() for policy in own) if p != "ideal"]
    figure = new_figure(path, max(7, 0.9 * len(outcomes)), 4.5)
    axes = figure.add_subplot()
    width = 0.8 / len(policies)
    for number, policy in enumerate(policies):
        places = [place for place, own in enumerate(outcomes.values()) if policy in own]
        drawn = [own[policy] for own in outcomes.values() if policy in own]
        ideals = [own["ideal"].throughput for own in outcomes.values() if policy in own]
        heights = [outcome.throughput / ideal for outcome, ideal in zip(drawn, ideals, strict=True)]
        left = [place - 0.4 + (number + 0.5) * width for place in places]
        bars = axes.bar(left, heights, width, color=f"C{number}", label=policy)
        labels = [f"{outcome.throughput:.3g}" if outcome.fits else "OOM" for outcome in drawn]
        axes.bar_label(bars, labels, rotation=90, fontsize=6)
    axes.set_xticks(range(len(outcomes)), list(outcomes), rotation=45, ha="right", fontsize=7)
    axes.set_ylabel("share of the ideal throughput")
    axes.set_ylim(0, 1.25)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(policies))
    figure.savefig(path)


def draw_algorithms(results: Sequence[AlgorithmResult], path: Path) -> None:
    """Draw Figure 10: the seconds of a step for each algorithm, with computation below communication."""
    models = list(dict.fromkeys(result.model for result in results))
    figure = new_figure(path, 4.5 * len(models), 4)
    for number, model in enumerate(models, 1):
        axes = figure.add_subplot(1, len(models), number)
        own = [result for result in results if result.model == model]
        computing = [result.computing for result in own]
        waiting = [result.seconds - result.computing for result in own]
        axes.bar(range(len(own)), computing, color="C0")
        bars = axes.bar(range(len(own)), waiting, bottom=computing, color="white", edgecolor="C0", hatch="//")
        labels = [f"{r.overhead:.0%}" if r.fits else "OOM" if r.seconds else "no plan" for r in own]
        axes.bar_label(bars, labels, fontsize=8)
        axes.set_xticks(range(len(own)), [r.algorithm for r in own], rotation=45, ha="right", fontsize=8)
        axes.set_title(model)
        axes.set_ylabel("seconds of a step")
    figure.savefig(path)
