"""Seeds in separate processes, which MXNet may end, and a summary of their results."""

from __future__ import annotations

import faulthandler
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaigns.fuzz.models import choose_kind, choose_workers, make_sample
from tests.campaigns.fuzz.trial import FuzzResult, try_sample

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

    def is_without_model(self, result: FuzzResult) -> bool:
        return result.stage == NO_MODEL or (result.stage == "died" and not (READY / self.key).exists())

    def __str__(self) -> str:
        return f"--seed {self.seed} --count 1 --focus {self.focus} ({self.kind})"


def run_seed(case: FuzzCase) -> tuple[FuzzCase, FuzzResult]:
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    silence_mxnet()
    mark = READY / case.key
    mark.unlink(missing_ok=True)
    workers = choose_workers(case.seed, case.kind)
    try:
        result = try_sample(make_sample(case.seed, case.kind), workers, case.seed, ready=mark.touch)
    except Exception:  # MXNet refuses the model on one device
        return case, FuzzResult(NO_MODEL)
    faulthandler.cancel_dump_traceback_later()
    return case, result


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
        without = sum(case.is_without_model(result) for case, result in own)
        failures = sum(bool(result.problems) and not case.is_without_model(result) for case, result in own)
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
