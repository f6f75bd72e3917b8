"""The observations of section 7.4 of the paper, checked on the plans of WResNet-152-10.

    python -m benchmarks.partition_results        (part of make bench-search)

1. Batch and channels are both split. 2. Convolutions of one block are split differently; repeated blocks are alike but for the first of
a group. 3. In the lower groups, whose activations are large, weights are fetched; in the higher ones activations are. Both searches' plans
are looked at, since they differ, and the bytes of each group are those that its convolutions move for weights and for activations.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tests.models.paper import wresnet
from tofu.graph import Graph, Phase, TensorKind
from tofu.planning.settings import Settings
from tofu.search import Choices, Problem
from tofu.search.algorithms import ALGORITHMS, SEARCHES
from tofu.search.choices import name_choices
from tofu.search.cost import evaluate
from tofu.search.solve import Effort

CONVOLUTION = re.compile(r"group(\d+)_block(\d+)_(1|2|3|project)_conv")
FOLDER = Path("demo-output")
BATCH_AXIS, CHANNEL_AXES = "b", ("co", "ci")

Splits = tuple[tuple[str, tuple[str | None, ...]], ...]


@dataclass
class Group:
    """One group of residual blocks: how the convolutions of each block are split, and what they move."""

    blocks: dict[int, Splits] = field(default_factory=dict)
    weight_bytes: int = 0
    activation_bytes: int = 0

    @property
    def mixed_blocks(self) -> int:
        """Blocks whose convolutions are not all split alike."""
        return sum(len({axes for _, axes in block}) > 1 for block in self.blocks.values())

    @property
    def repeated(self) -> Counter[Splits]:
        """The blocks after the first, by how they are split."""
        return Counter(block for number, block in self.blocks.items() if number > 0)

    @property
    def is_first_apart(self) -> bool:
        """Whether the first block, without its projection, is split unlike the most frequent one."""
        first = tuple(item for item in self.blocks[0] if item[0] != "project")
        return bool(self.repeated) and first != self.repeated.most_common(1)[0][0]


def list_groups(problem: Problem, choices: Choices) -> dict[int, Group]:
    """The groups of a plan."""
    graph = problem.graph
    axes = name_choices(choices).operators
    blocks: dict[tuple[int, int], list[tuple[str, tuple[str | None, ...]]]] = defaultdict(list)
    groups: dict[int, Group] = defaultdict(Group)
    for operator in graph.operators:
        match = CONVOLUTION.fullmatch(operator.name)
        if match and operator.phase is Phase.FORWARD:
            blocks[int(match[1]), int(match[2])].append((match[3], axes[operator.name]))
    for (group, block), splits in blocks.items():
        groups[group].blocks[block] = tuple(sorted(splits))
    weights = {t for t, tensor in enumerate(graph.tensors) if tensor.kind is TensorKind.PARAMETER}
    weights |= {gradient for parameter, gradient in graph.gradients.items() if parameter in weights}
    for owner, tensor, _, count, _ in evaluate(choices).items:
        match = CONVOLUTION.match(_forward_name(graph, owner))
        if match and tensor in weights:
            groups[int(match[1])].weight_bytes += count
        elif match:
            groups[int(match[1])].activation_bytes += count
    return dict(sorted(groups.items()))


def _forward_name(graph: Graph, owner: int) -> str:
    """The forward operator that a cost group belongs to; of an update, the weight's name, which begins like its convolution's."""
    if owner >= len(graph.operators):
        return graph.tensors[owner - len(graph.operators)].name
    forward = graph.operators[owner].forward
    return graph.operators[owner if forward is None else forward].name


def count_kinds(groups: dict[int, Group]) -> Counter[str]:
    """How many convolutions are split by batch alone, by channels alone, or by both over their steps."""
    kinds: Counter[str] = Counter()
    for group in groups.values():
        for block in group.blocks.values():
            for _, axes in block:
                has_batch, has_channels = BATCH_AXIS in axes, any(axis in CHANNEL_AXES for axis in axes)
                kinds[
                    "both"
                    if has_batch and has_channels
                    else "batch"
                    if has_batch
                    else "channels"
                    if has_channels
                    else "other"
                ] += 1
    return kinds


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--search-seconds", default=60.0, show_default=True, help="What the exact search may take.")
@click.option("--folder", default=FOLDER, show_default=True, type=click.Path(path_type=Path))
def main(workers: int, search_seconds: float, folder: Path) -> None:
    model = wresnet(152, 10, 8)
    problem = model.read(Settings(workers)).problem
    console, rows = Console(width=150), []
    for algorithm in SEARCHES:
        choices = ALGORITHMS[algorithm].solve(problem, effort=Effort(search_seconds)).choices
        groups = list_groups(problem, choices)
        kinds = ", ".join(f"{count} by {kind}" for kind, count in count_kinds(groups).most_common())
        total = evaluate(choices).total_bytes
        table = Table(
            title=f"{model.name}, {algorithm}: {total / 2**30:.2f} GiB per step; forward convolutions: {kinds}"
        )
        titles = ["group", "blocks", "split differently within", "repeated blocks alike", "first apart"]
        titles += ["weights, GiB", "activations, GiB"]
        for title in titles:
            table.add_column(title, justify="right")
        for number, group in groups.items():
            alike = " + ".join(str(count) for _, count in group.repeated.most_common())
            cells = [number + 1, len(group.blocks), group.mixed_blocks, alike, "yes" if group.is_first_apart else "no"]
            cells += [f"{group.weight_bytes / 2**30:.2f}", f"{group.activation_bytes / 2**30:.2f}"]
            table.add_row(*map(str, cells))
            rows.append([algorithm, *cells])
        console.print(table)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "partition_results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["algorithm", *titles])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
