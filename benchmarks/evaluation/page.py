"""The page of the evaluation, from its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from benchmarks.evaluation.causes import TABLE as EXPERIMENTS
from benchmarks.evaluation.causes import Finding, list_causes
from benchmarks.evaluation.claims import Claim, list_claims
from benchmarks.evaluation.measure import Planned
from benchmarks.evaluation.operator_study import TABLE as OPERATORS
from benchmarks.evaluation.operator_study import Studied, list_study
from benchmarks.evaluation.partition_picture import GroupRow
from benchmarks.evaluation.policies import Outcome
from benchmarks.evaluation.search_table import LIMIT, PAPER, Searched
from benchmarks.evaluation.tables import read_table
from benchmarks.model_sizes import compare
from tests.shared.commits import read_commits
from tofu.plan import format_seconds
from tofu.simulation.machine import Machine

SEARCH, PARTITION = "search.csv", "partition.csv"


@dataclass(frozen=True)
class Tried:
    """What a claim comes to on a machine one of whose numbers is changed."""

    change: str
    claim: str
    ours: str
    holds: bool


@dataclass(frozen=True)
class Tables:
    """All that was measured."""

    outcomes: Sequence[Outcome]
    planned: Sequence[Planned]
    tried: Sequence[Tried]

    @property
    def by_model(self) -> dict[str, dict[str, Outcome]]:
        """Model -> way to train -> what it came to."""
        found: dict[str, dict[str, Outcome]] = {}
        for one in self.outcomes:
            found.setdefault(one.model, {})[one.policy] = one
        return found


CSV = {"throughput.csv": Outcome, "algorithms.csv": Planned, "sensitivity.csv": Tried}


def read_tables(folder: Path) -> Tables:
    """What `python -m benchmarks.evaluation` has left in a folder."""
    return Tables(*(read_table(folder / name, kind) for name, kind in CSV.items()))


def list_lines(machine: Machine, tables: Tables, folder: Path) -> Iterator[str]:
    """The page, with what is in the folder of section 4.1, Table 1 and Figure 11."""
    claims = list(list_claims(tables.by_model, tables.planned))
    yield "# The paper's evaluation, simulated"
    yield ""
    yield "Written by `make reproduce`. Nothing here was run on GPUs: throughputs and seconds of steps are what the"
    yield f"simulator ([docs/simulation.md](../simulation.md)) predicts for {machine.name}, whose numbers are published ones:"
    yield ""
    yield from (f"- {source}" for source in machine.sources)
    yield ""
    yield "Of which commit: " + ", ".join(f"{part} {commit}" for part, commit in read_commits(folder).items()) + "."
    yield from _list_claims(claims, tables.tried)
    if (folder / EXPERIMENTS).exists():
        yield from list_causes(claims, read_table(folder / EXPERIMENTS, Finding))
    if (folder / OPERATORS).exists():
        yield from list_study(read_table(folder / OPERATORS, Studied))
    if (folder / SEARCH).exists():
        yield from _list_searches(read_table(folder / SEARCH, Searched))
    yield from _list_sizes()
    yield from _list_throughputs(tables.by_model)
    yield from _list_algorithms(tables.planned)
    if (folder / PARTITION).exists():
        yield from _list_groups(read_table(folder / PARTITION, GroupRow))


def _list_claims(claims: Sequence[Claim], tried: Sequence[Tried]) -> Iterator[str]:
    held = sum(claim.holds for claim in claims)
    changes = list(dict.fromkeys(one.change for one in tried))
    by_claim = {(one.claim, one.change): one for one in tried}
    yield from (
        "",
        f"## Claims of section 7: {held} of {len(claims)} hold",
        "",
        "A range holds within 5 points of the paper's.",
    )
    if changes:
        yield f"The last column: on which of {len(changes)} machines, with one number 30 % up or down, it is the other way round."
        yield "What they come to there is in sensitivity.csv."
    yield from ("", "| claim | paper | simulated | holds | unless |", "|---|---|---|---|---|")
    for claim in claims:
        other = [by_claim[claim.claim, change] for change in changes if (claim.claim, change) in by_claim]
        turned = ", ".join(one.change for one in other if one.holds != claim.holds)
        verdict = "yes" if claim.holds else "**no**"
        yield f"| {claim.claim} | {claim.paper} | {claim.ours} | {verdict} | {turned} |"


def _list_searches(rows: Sequence[Searched]) -> Iterator[str]:
    yield from (
        "",
        "## Table 1: the time to search",
        "",
        "| model | search | paper | here | finds |",
        "|---|---|---|---|---|",
    )
    for row in rows:
        here = format_seconds(row.seconds) + (f", of {row.states:.2g} states" if row.is_counted else "")
        yield f"| {row.model} | {row.method} | {PAPER.get((row.model, row.method), '')} | {here} | {row.found} |"
    yield from (
        "",
        "The dynamic program for all steps at once was not run: its states are counted as the paper counts them, all partitions of all",
    )
    yield "tensors of a group of operators, and each takes what a state of the recursion takes. Of the RNN there are fewer than the"
    yield "paper's, since time steps are coalesced with all that they hold."
    given = {row.model: row for row in rows if row.entries}
    if given:
        counts = "; ".join(f"{one.entries:,} of {one.all_entries:,} for {model}" for model, one in given.items())
        largest = max(given.values(), key=lambda row: row.entries).model
        held = ", ".join(
            f"{r.held_bytes / 2**30:.1f} GiB of {r.method}" for r in rows if r.entries and r.model == largest
        )
        paragraph = (
            f"HiGHS and toulbar2 get the coarse graph and the costs of the exact search, and {LIMIT} seconds without making the tables. "
            "Statistics that are written in place lie where their operator is: other pairs of choices have no variable in the integer "
            "program, and a cost without end in the network. Choices that another one can stand for, whatever all others choose, are left "
            f"out for both. So much is left of the costs of pairs: {counts}. HiGHS has a variable for each; for {largest} the solvers' "
            f"processes held {held} at most. Either may take longer than it was given."
        )
        yield from ("", *wrap(paragraph, 140, break_on_hyphens=False))


def _list_groups(rows: Sequence[GroupRow]) -> Iterator[str]:
    yield from (
        "",
        "## Figure 11: the partition of WResNet-152-10 among 8 workers",
        "",
        "![partition](partition.png)",
        "",
    )
    yield "Weights above (output channels vertically, input channels horizontally), the activations that convolutions read below (batch"
    yield 'vertically, channels horizontally); a colour is a worker, "xN" says how many blocks of the group are partitioned so.'
    yield from (
        "",
        "| group | blocks | split differently within | convolutions by batch | by channels | by both | weights | activations |",
    )
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        numbers = row.group, row.blocks, row.mixed_blocks, row.split_by_batch, row.split_by_channels, row.split_by_both
        yield f"| {' | '.join(map(str, numbers))} | {row.weights_gib:.2f} GiB | {row.activations_gib:.2f} GiB |"
    first, last = rows[0], rows[-1]
    observed = {
        "batch and channels are both split": any(
            row.split_by_both or (row.split_by_batch and row.split_by_channels) for row in rows
        ),
        "convolutions of one block are split differently": any(row.mixed_blocks for row in rows),
        "the lowest group fetches more of weights, the highest more of activations": first.weights_gib
        > first.activations_gib
        and last.weights_gib < last.activations_gib,
    }
    yield from ("", "Observations of section 7.4:", "")
    yield from (f"- {what}: {'yes' if holds else '**no**'}" for what, holds in observed.items())


def _list_sizes() -> Iterator[str]:
    yield from ("", "## Table 2: three times the weights, GiB", "", "| model | paper | here | |", "|---|---|---|---|")
    for name, paper, here in compare():
        yield f"| {name} | {paper:.1f} | {here:.2f} | {here / paper - 1:+.1%} |"


def _list_throughputs(measured: Mapping[str, Mapping[str, Outcome]]) -> Iterator[str]:
    yield from ("", "## Figures 8 and 9, and Table 3: throughput", "", "![throughput](throughput.png)", "")
    policies = list(dict.fromkeys(policy for outcomes in measured.values() for policy in outcomes))
    yield from (f"| model | {' | '.join(policies)} |", f"|---|{'---|' * len(policies)}")
    for name, outcomes in measured.items():
        cells = [_show_outcome(outcomes.get(policy), outcomes["ideal"]) for policy in policies]
        yield f"| {name} | {' | '.join(cells)} |"
    yield from ("", "Samples per second of 8 devices, the batch, and the part of the ideal; OOM: out of memory.")


def _show_outcome(outcome: Outcome | None, ideal: Outcome) -> str:
    if outcome is None:
        return ""
    if not outcome.fits:
        return "OOM"
    return f"{outcome.throughput:.3g} at {outcome.batch} ({outcome.throughput / ideal.throughput:.0%})"


def _list_algorithms(planned: Sequence[Planned]) -> Iterator[str]:
    yield from ("", "## Figure 10: partition algorithms", "", "![algorithms](algorithms.png)", "")
    yield from ("| model | algorithm | seconds of a step | communication | GiB of a device |", "|---|---|---|---|---|")
    for one in planned:
        seconds = f"{one.seconds:.3f}" if one.seconds else one.refusal
        memory = f"{one.needed_bytes / 2**30:.1f}{'' if one.fits else ' (OOM)'}"
        yield f"| {one.model} | {one.algorithm} | {seconds} | {one.overhead:.0%} | {memory} |"
