"""Summarize the verification of all primitives (JAX's basic operations)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.table import Table

from tdl_ops.jax import DESCRIPTIONS, WHOLE
from tdl_ops.jax.lacking import list_lacking
from tofu.errors import TofuError, suggest_several
from tofu.jax.verify.campaign import CaseReport
from tofu.verification.comparison import Compared
from tofu.verification.table import tabulate


@dataclass(frozen=True)
class Summary:
    """Totals of a verification.

    Attributes
    ----------
    described
        Number of primitives with a description.
    by_numbers
        Primitives whose outputs were compared with the numbers that their descriptions define.
    by_parts
        Primitives whose outputs were only compared with the combined outputs of parts.
    whole
        Primitives that are never split.
    uncompared
        Primitives without a meaningful test case.
    signatures, strategies, pairs
        Numbers of distinct equations (calls of primitives), of splits along one axis, and of splits along two axes.
    overlapping
        Number of strategies and pairs that were also run with overlapping shards.
    missing, explained
        Number of correct strategies that descriptions lack by mistake, and number of those lacking for a known reason.
    refused
        Number of distinct equations that a description refuses.
    """

    described: int
    by_numbers: tuple[str, ...]
    by_parts: tuple[str, ...]
    whole: tuple[str, ...]
    uncompared: tuple[str, ...]
    signatures: int
    strategies: int
    pairs: int
    overlapping: int
    missing: int
    explained: int
    refused: int

    def __str__(self) -> str:
        return (
            f"{self.described} primitives described: {len(self.by_numbers)} compared by numbers, {len(self.by_parts)} by their parts "
            f"alone, {len(self.whole)} replicated, {len(self.uncompared)} not at all.\n"
            f"{self.signatures} signatures, {self.strategies} strategies and {self.pairs} pairs of them run in parts, "
            f"{self.overlapping} of these in parts that overlap as well; {self.missing} strategies missing, "
            f"{self.explained} exact cuts explained, {self.refused} signatures refused."
        )


def summarize(results: Sequence[CaseReport], primitives: Collection[str] = ()) -> Summary:
    """Count the results for `primitives` (JAX operations), by default for all operations with a description."""
    described = set(primitives or DESCRIPTIONS.built_in - list_lacking())
    comparisons_by_op: dict[str, set[Compared]] = defaultdict(set)
    counts = Counter(signatures=0, strategies=0, pairs=0, overlapping=0, refused=0)
    for verified in (verified for result in results for verified in result.verified):
        report = verified.report
        if set(report.outputs) <= report.compared_outputs:
            comparisons_by_op[report.op].add(report.kind)
        counts["signatures"] += 1
        counts["strategies"] += len(report.strategies)
        counts["pairs"] += len(verified.pairs)
        counts["overlapping"] += sum(split.overlaps for split in (*report.strategies, *verified.pairs))
        counts["refused"] += bool(report.refused)
    by_numbers = {name for name in described if Compared.NUMBERS in comparisons_by_op[name]}
    by_parts = {name for name in described - by_numbers if Compared.PARTS in comparisons_by_op[name]}
    return Summary(
        len(described),
        tuple(sorted(by_numbers)),
        tuple(sorted(by_parts)),
        tuple(sorted(described.intersection(WHOLE))),
        tuple(sorted(described.difference(by_numbers, by_parts, WHOLE))),
        missing=sum(len(result.missing) for result in results),
        explained=sum(len(result.explained) for result in results),
        **counts,
    )


def check_names(names: Collection[str]) -> None:
    """Raise TofuError for names of primitives without a description."""
    unknown = sorted(set(names) - set(DESCRIPTIONS))
    if unknown:
        hint = suggest_several(unknown[0], DESCRIPTIONS)
        raise TofuError(f"No primitive that is described is called {', '.join(unknown)}{hint}")


def results_table(results: Sequence[CaseReport]) -> Table:
    """Return a table of the results, with a row for each JAX primitive (basic operation)."""
    missing = {strategy.op for result in results for strategy in result.missing}
    equations = [equation for result in results for equation in result.verified]
    return tabulate(
        "primitive",
        ((equation.report, 1, bool(equation.problems) or equation.report.op in missing) for equation in equations),
    )
