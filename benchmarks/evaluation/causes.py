"""The section of the page that says why claims do not hold: what became of them in experiments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.evaluation.claims import Claim

TABLE = "counterfactuals.csv"


@dataclass(frozen=True)
class Finding:
    """A claim in one experiment: what it comes to without and with the change, and whether it holds. `is_about`: it may be the cause."""

    change: str
    claim: str
    without: str
    changed: str
    held: bool
    holds: bool
    is_about: bool


def list_causes(claims: Sequence[Claim], rows: Sequence[Finding]) -> Iterator[str]:
    """The section of the page."""
    yield from ("", "## Why claims do not hold", "")
    yield "Each experiment takes one cause away, or puts one in, and the same simulator runs again what that changes. No number is fitted"
    yield "to the paper's. An experiment runs the models that its claims are about. The last column: what held before and does not then."
    yield ""
    yield from list_experiments(rows)
    yield from ("", "What they say:", "")
    turned = _find_turned(rows)
    for claim in claims:
        if not claim.holds:
            yield f"- {claim.claim}: {_explain(claim, [row for row in rows if row.claim == claim.claim], turned)}"


def _explain(claim: Claim, rows: Sequence[Finding], turned: Mapping[str, Sequence[str]]) -> str:
    decided = [row.change for row in rows if row.holds]
    alone = [change for change in decided if change not in turned]
    if alone:
        return f"it holds where {', and where '.join(alone)}."
    if decided:
        found = f"it holds where {', and where '.join(decided)}, but then others do not."
    else:
        found = f"no experiment of {len(rows)} decides it."
    return f"{found} Most likely {claim.reason}."


def _find_turned(rows: Sequence[Finding]) -> dict[str, list[str]]:
    """Change -> the claims that it breaks."""
    turned: dict[str, list[str]] = {}
    for row in rows:
        if row.held and not row.holds:
            turned.setdefault(row.change, []).append(row.claim)
    return turned


def list_experiments(rows: Sequence[Finding]) -> Iterator[str]:
    """The table of the page."""
    turned = _find_turned(rows)
    by_claim: dict[str, list[Finding]] = {}
    for row in rows:
        if not row.held and (row.is_about or row.holds):
            by_claim.setdefault(row.claim, []).append(row)
    told: set[str] = set()
    yield "| claim | without | what is changed | with it | holds then | no longer holds |"
    yield "|---|---|---|---|---|---|"
    for own in by_claim.values():
        for number, row in enumerate(own):
            claim, without = (row.claim, row.without) if number == 0 else ("", "")
            verdict = "**yes**" if row.holds else "no"
            others = "as above" if row.change in told else "; ".join(turned.get(row.change, ()))
            told |= {row.change} & set(turned)
            yield f"| {claim} | {without} | {row.change} | {row.changed} | {verdict} | {others} |"
