"""Figure 11: how WResNet-152-10 is partitioned among 8 workers, one repeated block of each group, as the paper draws it.

    python -m benchmarks.evaluation.partition_picture

Weights above, the activations that the convolutions read below; vertically a weight's output channels and an activation's batch,
horizontally the input channels. A colour is a worker. "xN": so many blocks of the group are partitioned so.

Writes docs/evaluation/partition.png and partition.csv.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.evaluation.tables import write_table
from benchmarks.partition_results import count_kinds, list_groups
from tests.models.paper import wresnet
from tests.shared.commits import name_tree, note_commit
from tofu.planning.settings import Settings
from tofu.report.picture import new_figure
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.geometry import find_shards
from tofu.search.solve import Effort

CONVOLUTION = re.compile(r"group(\d+)_block(\d+)_(1|2|3)_conv")
WORKERS = 8
SIDE = 0.8  # of a cell of the picture


@dataclass(frozen=True)
class Block:
    """The tensors of a block's convolutions (activation and weight of each), and how many blocks of its group are laid out so."""

    group: int
    tensors: tuple[int, ...]
    times: int


def list_blocks(problem: Problem, choices: Choices) -> list[Block]:
    """Of each group, the layout that most of its blocks have."""
    tensors: dict[tuple[int, int], list[int]] = defaultdict(list)
    for operator in problem.graph.operators:
        if found := CONVOLUTION.fullmatch(operator.name):
            tensors[int(found[1]), int(found[2])] += operator.inputs[:2]
    groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for (group, _), own in sorted(tensors.items()):
        groups[group].append(tuple(own))
    return [Block(group, *_find_most(blocks, choices)) for group, blocks in groups.items()]


def _find_most(blocks: list[tuple[int, ...]], choices: Choices) -> tuple[tuple[int, ...], int]:
    layouts = [tuple(tuple(choices.layout(tensor)) for tensor in block) for block in blocks]
    most, times = Counter(layouts).most_common(1)[0]
    return blocks[layouts.index(most)], times


@dataclass(frozen=True)
class GroupRow:
    """What section 7.4 observes of a group of blocks: GiB that its convolutions move for weights and for activations, among others."""

    group: int
    blocks: int
    mixed_blocks: int
    split_by_batch: int
    split_by_channels: int
    split_by_both: int
    weights_gib: float
    activations_gib: float


def list_group_rows(problem: Problem, choices: Choices) -> Iterator[GroupRow]:
    """A row for each group."""
    for number, group in list_groups(problem, choices).items():
        kinds = count_kinds({number: group})
        split = (kinds[kind] for kind in ("batch", "channels", "both"))
        moved = (count / 2**30 for count in (group.weight_bytes, group.activation_bytes))
        yield GroupRow(number + 1, len(group.blocks), group.mixed_blocks, *split, *moved)


def list_tiles(problem: Problem, choices: Choices, tensor: int) -> Iterator[tuple[int, float, float, float, float]]:
    """Worker, left, top, width and height, of a square of side 1. Workers that share a tile stand in stripes."""
    shape = problem.graph.tensors[tensor].shape
    spans = [
        tuple((begin / extent, end / extent) for (begin, end), extent in zip(region[:2], shape, strict=False))
        for region in find_shards(problem, tensor, choices.layout(tensor)).tolist()
    ]
    for worker, ((top, bottom), (left, right)) in enumerate(spans):
        sharing = [other for other, own in enumerate(spans) if own == spans[worker]]
        width = (right - left) / len(sharing)
        yield worker, left + sharing.index(worker) * width, top, width, bottom - top


def draw(problem: Problem, choices: Choices, path: Path) -> None:
    """The picture."""
    blocks = list_blocks(problem, choices)
    figure = new_figure(path, 3.6 * len(blocks), 2.8)
    for place, block in enumerate(blocks):
        axes = figure.add_subplot(1, len(blocks), place + 1)
        for number, tensor in enumerate(block.tensors):
            _draw_tensor(axes, problem, choices, tensor, number // 2, number % 2)
        axes.set_xlim(-0.1, len(block.tensors) / 2)
        axes.set_ylim(2.1, -0.25)
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(f"group {block.group + 1}, x{block.times}", fontsize="small")
    figure.savefig(path, dpi=120)


def _draw_tensor(axes: Any, problem: Problem, choices: Choices, tensor: int, column: int, is_weight: int) -> None:
    row = 0 if is_weight else 1
    for worker, left, top, width, height in list_tiles(problem, choices, tensor):
        place = (column + SIDE * left, row + SIDE * top)
        axes.add_patch(_rectangle(place, SIDE * width, SIDE * height, f"C{worker}"))
    shape = " x ".join(map(str, problem.graph.tensors[tensor].shape))
    axes.text(column + SIDE / 2, row - 0.03, shape, ha="center", va="bottom", fontsize=4.5)


def _rectangle(place: tuple[float, float], width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(place, width, height, facecolor=colour, edgecolor="white", linewidth=0.5)


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evaluation"), show_default=True)
def main(output: Path) -> None:
    tree = name_tree()
    problem = wresnet(152, 10, 8).read(Settings(WORKERS, cache=False)).problem
    choices = ALGORITHMS["exact"].solve(problem, effort=Effort(60)).choices
    output.mkdir(parents=True, exist_ok=True)
    draw(problem, choices, output / "partition.png")
    write_table(output / "partition.csv", list_group_rows(problem, choices))
    note_commit(output, "Figure 11", tree)


if __name__ == "__main__":
    main()
