"""Seeds in separate processes, which MXNet may end, and a summary of their results."""

from __future__ import annotations

import faulthandler
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaigns.fuzz.models import choose_kind, choose_workers, make_sample
from tests.campaigns.fuzz.trial import try_sample

READY = Path("demo-output/fuzz-ready")  # a file for each model that runs on one device
LONGEST_SECONDS = 300  # for one model on a busy machine
NO_MODEL = "no model"


@dataclass(frozen=True)
class FuzzCase:
    seed: int
    focus: str

    @property
    def kind(self) -> str:
        return choose_kind(self.seed, self.focus)

    @property
    def key(self) -> str:
        return f"{self.focus} {self.seed}"

    def __str__(self) -> str:
        return f"--seed {self.seed} --count 1 --focus {self.focus} ({self.kind})"


@dataclass
class FuzzResult:
    """Counts of plans that ran and that were refused, by kind. In a dispute, one device is wrong."""

    stage: str = "died"
    workers: int = 0
    plans: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    disputes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def is_without_model(self, case: FuzzCase) -> bool:
        return self.stage == NO_MODEL or (self.stage == "died" and not (READY / case.key).exists())


def run_seed(case: FuzzCase) -> tuple[FuzzCase, FuzzResult]:
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    silence_mxnet()
    mark = READY / case.key
    mark.unlink(missing_ok=True)
    workers = choose_workers(case.seed, case.kind)
    try:
        outcome = try_sample(make_sample(case.seed, case.kind), workers, case.seed, ready=mark.touch)
    except Exception:  # MXNet refuses the model on one device
        return case, FuzzResult(NO_MODEL)
    failures, disputes = (
        [f"{failure.workers} workers, {failure.plan} plan: {failure.kind}\n{failure.message[:2000]}" for failure in own]
        for own in (outcome.failures, outcome.disputes)
    )
    plans, refused = dict(outcome.plans), dict(outcome.refused)
    faulthandler.cancel_dump_traceback_later()
    return case, FuzzResult("done", outcome.workers, plans, refused, disputes, failures, outcome.seconds)


def silence_mxnet() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def print_summary(results: Iterable[tuple[FuzzCase, FuzzResult]], console: Console) -> int:
    """Return the number of models that failed."""
    columns = "models", "run", NO_MODEL, "plans", "refused", "one device wrong", "failures", "s a plan"
    table = Table(*columns, title="Random models under random plans")
    by_kind: dict[str, list[tuple[FuzzCase, FuzzResult]]] = {}
    for case, result in results:
        by_kind.setdefault(case.kind, []).append((case, result))
    failed = 0
    refusals: Counter[str] = Counter()
    for kind, own in sorted(by_kind.items()):
        without = sum(result.is_without_model(case) for case, result in own)
        failures = sum(bool(result.problems) and not result.is_without_model(case) for case, result in own)
        plans = sum(sum(result.plans.values()) for _, result in own)
        refused = sum(sum(result.refused.values()) for _, result in own)
        disputes = sum(bool(result.disputes) for _, result in own)
        seconds = sum(result.seconds for _, result in own) / max(plans, 1)
        counts = len(own), without, plans, refused, disputes, failures
        table.add_row(kind, *(f"{count:,}" for count in counts), f"{seconds:.2f}")
        failed += failures
        for _, result in own:
            refusals.update(result.refused)
    console.print(table)
    listed = (f"{kind} {count:,}" for kind, count in refusals.most_common())
    console.print(f"refused: {', '.join(listed) or 'none'}", highlight=False)
    return failed
