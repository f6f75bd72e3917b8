"""Compare Tofu's plans of a model with hand-made plans: bytes transferred, and bytes that each worker stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rich.console import Console

from tofu.errors import ShapeError, TofuError, on_one_line
from tofu.formatting import format_bytes
from tofu.pipeline import Partition
from tofu.planning.settings import DEFAULTS, Settings
from tofu.report.console import new_table, print_legend, print_notes

NOT_THERE = "-"
LEGEND = """
"moved" counts the bytes between all workers in a training step, and "held" the bytes of the worker that holds most. "Tofu within" a plan is
the best plan that holds no more than that plan.
"""


@dataclass(frozen=True)
class ComparedPlan:
    """One row of a comparison. If its plan does not exist, `partition` is None, and `refusal` is the reason."""

    name: str
    partition: Partition | None
    refusal: str = ""

    @property
    def held_bytes(self) -> int | None:
        """The largest number of bytes that a worker stores."""
        return None if self.partition is None else max(self.partition.plan.worker_bytes)


def compare_plans(
    settings: Settings, make: Callable[[Settings], Partition], report: Callable[[str], None] = lambda stage: None
) -> Iterator[ComparedPlan]:
    """Make several plans of a model in turn: Tofu's plans, data parallelism, and a plan made by hand for Transformers.

    If the user set `plan`, `memory_limit`, `algorithm` or `replicate`, a plan with these settings comes first. `report`
    is called with a plan's name before `make` makes the plan.
    """
    defaults = {name: DEFAULTS[name] for name in ("algorithm", "replicate")}
    base = replace(settings, plan=None, memory_limit=None, **defaults)

    def find(name: str, plan_settings: Settings) -> ComparedPlan:
        report(name)
        try:
            return ComparedPlan(name, make(plan_settings))
        except ShapeError:  # the call is wrong, whatever the plan
            raise
        except TofuError as error:
            return ComparedPlan(name, None, on_one_line(error))

    if settings != base:
        yield find("as asked", settings)
    yield find("Tofu, everything split", base)
    yield find("Tofu, replicas free", replace(base, replicate="free"))
    yield find("the paper's recursion", replace(base, algorithm="recursive"))
    for name, algorithm in (("data parallelism", "data-parallel"), ("Megatron", "megatron")):
        hand_made_plan = find(name, replace(base, algorithm=algorithm, hints=None))
        yield hand_made_plan
        if hand_made_plan.held_bytes is not None:
            yield find(f"Tofu within {name}", replace(base, memory_limit=hand_made_plan.held_bytes))


def print_plans(console: Console, title: str, plans: list[ComparedPlan]) -> None:
    """Print a row for each plan."""
    table = new_table("plan", title=title)
    table.add_column("moved", justify="right")
    table.add_column("held", justify="right")
    table.add_column("guarantee", style="dim")
    for compared in plans:
        if compared.partition is None:
            table.add_row(compared.name, NOT_THERE, NOT_THERE, "does not apply: see below")
        else:
            plan = compared.partition.plan
            sizes = map(format_bytes, (plan.communication_bytes, max(plan.worker_bytes)))
            table.add_row(compared.name, *sizes, plan.optimality)
    console.print(table)
    print_notes(console, [f"{plan.name} does not apply: {plan.refusal}" for plan in plans if plan.partition is None])
    print_legend(console, LEGEND)
