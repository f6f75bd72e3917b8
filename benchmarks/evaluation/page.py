"""The page docs/evaluation/README.md, written from the CSV files of the evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evaluation.claims import Claim, list_claims
from benchmarks.evaluation.measure import AlgorithmResult
from benchmarks.evaluation.partition_picture import TABLE as PARTITION
from benchmarks.evaluation.partition_picture import GroupRow
from benchmarks.evaluation.policies import PolicyOutcome
from benchmarks.evaluation.search_table import PAPER, SearchTime
from benchmarks.evaluation.search_table import TABLE as SEARCH
from benchmarks.evaluation.tables import read_commits, read_table
from tests.models.paper import rnn, wresnet
from tofu.formatting import format_seconds
from tofu.simulation.machine import Machine

# Table 2 of the paper: GiB of weights, gradients and one history. RNN-8-6K does not fit its neighbours; it may be a misprint of 25.5.
RNN_GIB = {
    4096: {6: 8.4, 8: 11.4, 10: 14.4},
    6144: {6: 18.6, 8: 28.5, 10: 32.1},
    8192: {6: 33.0, 8: 45.3, 10: 57.0},
}
WRESNET_GIB = {
    4: {50: 4.2, 101: 7.8, 152: 10.5},
    6: {50: 9.6, 101: 17.1, 152: 23.4},
    8: {50: 17.1, 101: 30.6, 152: 41.7},
    10: {50: 26.7, 101: 47.7, 152: 65.1},
}


@dataclass(frozen=True)
class ClaimOnChangedMachine:
    """A claim on a machine with one changed number."""

    change: str
    claim: str
    ours: str
    holds: bool


@dataclass(frozen=True)
class Tables:
    """Results of `python -m benchmarks.evaluation`."""

    outcomes: Sequence[PolicyOutcome]
    algorithms: Sequence[AlgorithmResult]
    claims: Sequence[ClaimOnChangedMachine]

    @property
    def by_model(self) -> dict[str, dict[str, PolicyOutcome]]:
        models: dict[str, dict[str, PolicyOutcome]] = {}
        for outcome in self.outcomes:
            models.setdefault(outcome.model, {})[outcome.policy] = outcome
        return models


CSV = {"throughput.csv": PolicyOutcome, "algorithms.csv": AlgorithmResult, "sensitivity.csv": ClaimOnChangedMachine}


def read_tables(folder: Path) -> Tables:
    return Tables(*(read_table(folder / name, kind) for name, kind in CSV.items()))


def list_lines(machine: Machine, tables: Tables, folder: Path) -> Iterator[str]:
    yield "# The paper's evaluation, simulated"
    yield ""
    yield "Written by `make reproduce`. Nothing here was run on GPUs. The [simulator](../simulation.md) predicts throughputs and times for"
    yield f"the machine {machine.name}. It uses these published numbers:"
    yield ""
    yield from (f"- {source}" for source in machine.sources)
    yield ""
    yield "Commits: " + ", ".join(f"{part} {commit}" for part, commit in read_commits(folder).items()) + "."
    yield "[Findings](findings.md) explains why some claims do not hold."
    yield from _list_claims(list(list_claims(tables.by_model, tables.algorithms)), tables.claims)
    if (folder / SEARCH).exists():
        yield from _list_searches(read_table(folder / SEARCH, SearchTime))
    yield from _list_sizes()
    yield from _list_throughputs(tables.by_model)
    yield from _list_algorithms(tables.algorithms)
    if (folder / PARTITION).exists():
        yield from _list_groups(read_table(folder / PARTITION, GroupRow))


def _start_table(title: str, columns: str, picture: str = "") -> Iterator[str]:
    yield from ("", f"## {title}", "")
    if picture:
        yield from (f"![{Path(picture).stem}]({picture})", "")
    yield from (f"| {columns} |", "|---" * (columns.count("|") + 1) + "|")


def _list_claims(claims: Sequence[Claim], changed: Sequence[ClaimOnChangedMachine]) -> Iterator[str]:
    held = sum(claim.holds for claim in claims)
    yield from _start_table(
        f"Claims of section 7: {held} of {len(claims)} hold", "claim | paper | simulated | holds | unless"
    )
    for claim in claims:
        turned = ", ".join(row.change for row in changed if row.claim == claim.claim and row.holds != claim.holds)
        verdict = "yes" if claim.holds else "**no**"
        yield f"| {claim.claim} | {claim.paper} | {claim.ours} | {verdict} | {turned} |"
    yield from ("", "A range holds if it exceeds the paper's range by at most 5 percentage points.")
    if changes := {row.change for row in changed}:
        yield f"The evaluation was repeated on {len(changes)} other machines, each with one number 30 % up or down (sensitivity.csv)."
        yield "The last column lists the changes that change the verdict."


def _list_searches(rows: Sequence[SearchTime]) -> Iterator[str]:
    yield from _start_table("Table 1: the time to search", "model | search | paper | here | plan")
    for row in rows:
        here = format_seconds(row.seconds) + (f", of {row.states:.2g} states" if row.is_counted else "")
        yield f"| {row.model} | {row.method} | {PAPER.get((row.model, row.method), '')} | {here} | {row.plan} |"
    yield ""
    yield "The dynamic program (DP) for all rounds at once was not run. Its time is estimated: the number of its states, times the time of"
    yield "a state in the recursion. As in the paper, a state is a partition of all tensors of a group of operators. The RNN has fewer"
    yield "states than in the paper, because Tofu merges equal time steps completely."


def _list_sizes() -> Iterator[str]:
    yield from _start_table("Table 2: three times the weights, GiB", "model | paper | here | difference")
    cells = [(rnn(layers, hidden), gib) for hidden, row in RNN_GIB.items() for layers, gib in row.items()]
    cells += [(wresnet(layers, width), gib) for width, row in WRESNET_GIB.items() for layers, gib in row.items()]
    for model, paper in cells:
        here = 3 * model.weight_bytes() / 2**30
        yield f"| {model.name} | {paper:.1f} | {here:.2f} | {here / paper - 1:+.1%} |"


def _list_throughputs(outcomes: Mapping[str, Mapping[str, PolicyOutcome]]) -> Iterator[str]:
    policies = list(dict.fromkeys(policy for own in outcomes.values() for policy in own))
    title = "Figures 8 and 9, and Table 3: throughput"
    yield from _start_table(title, f"model | {' | '.join(policies)}", "throughput.png")
    for name, own in outcomes.items():
        yield f"| {name} | {' | '.join(_format_outcome(own.get(policy), own['ideal']) for policy in policies)} |"
    yield from (
        "",
        "Each cell has the samples per second of 8 devices, the batch, and the share of the ideal. OOM: out of memory.",
    )


def _format_outcome(outcome: PolicyOutcome | None, ideal: PolicyOutcome) -> str:
    if outcome is None:
        return ""
    if not outcome.fits:
        return "OOM"
    return f"{outcome.throughput:.3g} at {outcome.batch} ({outcome.throughput / ideal.throughput:.0%})"


def _list_algorithms(results: Sequence[AlgorithmResult]) -> Iterator[str]:
    columns = "model | algorithm | seconds of a step | communication | GiB per device"
    yield from _start_table("Figure 10: partition algorithms", columns, "algorithms.png")
    for result in results:
        seconds = f"{result.seconds:.3f}" if result.seconds else result.refusal
        memory = f"{result.needed_bytes / 2**30:.1f}{'' if result.fits else ' (OOM)'}"
        yield f"| {result.model} | {result.algorithm} | {seconds} | {result.overhead:.0%} | {memory} |"


def _list_groups(rows: Sequence[GroupRow]) -> Iterator[str]:
    columns = "group | blocks | split differently within | convolutions by batch | by channels | by both | weights | activations"
    yield from _start_table("Figure 11: the partition of WResNet-152-10 among 8 workers", columns, "partition.png")
    for row in rows:
        numbers = row.group, row.blocks, row.mixed_blocks, row.split_by_batch, row.split_by_channels, row.split_by_both
        yield f"| {' | '.join(map(str, numbers))} | {row.weights_gib:.2f} GiB | {row.activations_gib:.2f} GiB |"
    yield ""
    yield "The upper row shows weights (output channels vertically, input channels horizontally). The lower row shows the activations that"
    yield 'convolutions read (batch vertically, channels horizontally). Each color is a worker. "xN" counts the blocks with this partition.'
    first, last = rows[0], rows[-1]
    observations = {
        "batch and channels are both split": any(
            row.split_by_both or (row.split_by_batch and row.split_by_channels) for row in rows
        ),
        "convolutions of one block are split differently": any(row.mixed_blocks for row in rows),
        "the lowest group fetches mostly weights, the highest group mostly activations": first.weights_gib
        > first.activations_gib
        and last.weights_gib < last.activations_gib,
    }
    yield from ("", "Observations of section 7.4:", "")
    yield from (f"- {text}: {'yes' if holds else '**no**'}" for text, holds in observations.items())
