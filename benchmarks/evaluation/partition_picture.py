"""Figure 11: how WResNet-152-10 is partitioned among 8 workers, one repeated block of each group.

\b
    python -m benchmarks.evaluation.partition_picture

Also counts what section 7.4 observes. Batch and channels are both split. Convolutions of one block are split differently. The lower groups,
whose activations are large, fetch weights, and the higher groups fetch activations. Writes docs/evaluation/partition.png and partition.csv.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.evaluation.tables import write_commit, write_table
from tests.models.paper import wresnet
from tests.shared.commits import name_tree
from tofu.graph import Graph, Phase, TensorKind
from tofu.planning.settings import Settings
from tofu.report.picture import new_figure
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import name_choices
from tofu.search.cost import evaluate
from tofu.search.geometry import find_shards
from tofu.search.solve import Effort

TABLE = "partition.csv"
CONVOLUTION = re.compile(r"group(\d+)_block(\d+)_(1|2|3|project)_conv")
WORKERS = 8
SIDE = 0.8  # of a tensor in the picture


@dataclass(frozen=True)
class GroupRow:
    """Splits of the residual blocks in a group, and GiB that the convolutions transfer for weights and activations.

    A mixed block has convolutions that are split differently. `split_by_batch` and so on count convolutions.
    """

    group: int
    blocks: int
    mixed_blocks: int
    split_by_batch: int
    split_by_channels: int
    split_by_both: int
    weights_gib: float
    activations_gib: float


def list_group_rows(problem: Problem, choices: Choices) -> Iterator[GroupRow]:
    graph, axes = problem.graph, name_choices(choices).operators
    blocks: dict[int, dict[int, list[tuple[str | None, ...]]]] = defaultdict(lambda: defaultdict(list))
    for operator in graph.operators:
        match = CONVOLUTION.fullmatch(operator.name)
        if match and operator.phase is Phase.FORWARD:
            blocks[int(match[1])][int(match[2])].append(axes[operator.name])
    weights = {t for t, tensor in enumerate(graph.tensors) if tensor.kind is TensorKind.PARAMETER}
    weights |= {gradient for parameter, gradient in graph.gradients.items() if parameter in weights}
    moved_bytes: Counter[tuple[int, bool]] = Counter()  # (group, of a weight)
    for owner, tensor, _, count, _ in evaluate(choices).items:
        if match := CONVOLUTION.match(_get_forward_name(graph, owner)):
            moved_bytes[int(match[1]), tensor in weights] += count
    for group, own in sorted(blocks.items()):
        splits = Counter(_name_split(axes) for block in own.values() for axes in block)
        yield GroupRow(
            group + 1,
            len(own),
            sum(len(set(block)) > 1 for block in own.values()),
            splits["batch"],
            splits["channels"],
            splits["both"],
            moved_bytes[group, True] / 2**30,
            moved_bytes[group, False] / 2**30,
        )


def _get_forward_name(graph: Graph, owner: int) -> str:
    if owner >= len(graph.operators):
        return graph.tensors[owner - len(graph.operators)].name
    forward = graph.operators[owner].forward
    return graph.operators[owner if forward is None else forward].name


def _name_split(axes: Sequence[str | None]) -> str:
    has_batch, has_channels = "b" in axes, "co" in axes or "ci" in axes
    if has_batch and has_channels:
        return "both"
    return "batch" if has_batch else "channels" if has_channels else "other"


@dataclass(frozen=True)
class RepeatedBlock:
    """The tensors of a block's convolutions (activation and weight of each). `times` blocks have the same layouts."""

    group: int
    tensors: tuple[int, ...]
    times: int


def list_blocks(problem: Problem, choices: Choices) -> Iterator[RepeatedBlock]:
    """For each group, yield a block with the most frequent layouts."""
    groups: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for operator in problem.graph.operators:
        match = CONVOLUTION.fullmatch(operator.name)
        if match and match[3] != "project":
            groups[int(match[1])][int(match[2])] += operator.inputs[:2]
    for group, blocks in sorted(groups.items()):
        tensors = [tuple(own) for _, own in sorted(blocks.items())]
        layouts = [tuple(tuple(choices.layout(tensor)) for tensor in own) for own in tensors]
        most, times = Counter(layouts).most_common(1)[0]
        yield RepeatedBlock(group, tensors[layouts.index(most)], times)


def list_tiles(problem: Problem, choices: Choices, tensor: int) -> Iterator[tuple[int, float, float, float, float]]:
    """Yield worker, left, top, width and height of each shard in a unit square. Replicas are drawn as stripes."""
    shape = problem.graph.tensors[tensor].shape
    spans = [
        tuple((begin / extent, end / extent) for (begin, end), extent in zip(region[:2], shape, strict=False))
        for region in find_shards(problem, tensor, choices.layout(tensor)).tolist()
    ]
    for worker, ((top, bottom), (left, right)) in enumerate(spans):
        sharing = [sharer for sharer, own in enumerate(spans) if own == spans[worker]]
        width = (right - left) / len(sharing)
        yield worker, left + sharing.index(worker) * width, top, width, bottom - top


def draw(problem: Problem, choices: Choices, path: Path) -> None:
    blocks = list(list_blocks(problem, choices))
    figure = new_figure(path, 3.6 * len(blocks), 2.8)
    for place, block in enumerate(blocks):
        axes = figure.add_subplot(1, len(blocks), place + 1)
        for number, tensor in enumerate(block.tensors):
            _draw_tensor(axes, problem, choices, tensor, number // 2, 1 - number % 2)
        axes.set_xlim(-0.1, len(block.tensors) / 2)
        axes.set_ylim(2.1, -0.25)
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(f"group {block.group + 1}, x{block.times}", fontsize="small")
    figure.savefig(path, dpi=120)


def _draw_tensor(axes: Any, problem: Problem, choices: Choices, tensor: int, column: int, row: int) -> None:
    from matplotlib.patches import Rectangle

    for worker, left, top, width, height in list_tiles(problem, choices, tensor):
        corner = column + SIDE * left, row + SIDE * top
        tile = Rectangle(corner, SIDE * width, SIDE * height, facecolor=f"C{worker}", edgecolor="white", linewidth=0.5)
        axes.add_patch(tile)
    shape = " x ".join(map(str, problem.graph.tensors[tensor].shape))
    axes.text(column + SIDE / 2, row - 0.03, shape, ha="center", va="bottom", fontsize=4.5)


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evaluation"), show_default=True)
def main(output: Path) -> None:
    commit = name_tree()
    problem = wresnet(152, 10, 8).read(Settings(WORKERS, cache=False)).problem
    choices = ALGORITHMS["exact"].solve(problem, effort=Effort(60)).choices
    output.mkdir(parents=True, exist_ok=True)
    draw(problem, choices, output / "partition.png")
    write_table(output / TABLE, list_group_rows(problem, choices))
    write_commit(output, "Figure 11", commit)


if __name__ == "__main__":
    main()
