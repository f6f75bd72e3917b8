"""Step times on virtual devices of this machine, with Tofu's plans and with hand-made plans (*peers*).

\b
    python -m benchmarks.jax_beside_peers
    python -m benchmarks.jax_beside_peers --workers 4 --model MLP --model "LSTM 2x4" --rounds 40

All plans of a model run in one process, from the same state. In each round, every plan runs one step. The time of a
plan is the median of the rounds; quartiles show the spread. Virtual devices are threads that share processors and
memory, so unlike on accelerators, a transferred byte costs a copy, and a collective waits for all threads. The
benchmark fails if Tofu's plan takes much longer than the fastest peer.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.jax_compare import make_comparison, set_environment
from tests.shared.campaigns import choose_names

MODELS = ("MLP", "Transformer block", "LSTM 2x4", "ResNet", "4-layer Transformer")
MOST_OF_BEST_PEER = 1.25
MOST_SECONDS = 120.0  # of all rounds of a model
WARMING, LEAST_ROUNDS = 2, 3  # rounds that fill caches, and rounds that are always timed
MOST_LOSS_ERROR = 1e-4  # of the first float32 loss, relative to one device


@dataclass
class TimedPlan:
    """A compiled step under a plan, its placed state and data, and the seconds of its steps."""

    name: str
    is_tofu: bool
    compiled: Any
    state: list[Any]
    data: list[Any]
    seconds: list[float] = field(default_factory=list)

    def run(self) -> Any:
        import jax

        started = time.perf_counter()
        *self.state, loss = jax.block_until_ready(self.compiled(*self.state, *self.data))
        self.seconds.append(time.perf_counter() - started)
        return loss

    @property
    def median(self) -> float:
        return statistics.median(self.seconds[WARMING:])

    @property
    def quarters(self) -> tuple[float, float]:
        first, _, third = statistics.quantiles(self.seconds[WARMING:], n=4)
        return first, third


def compile_plans(name: str, workers: int, search_seconds: float) -> Sequence[TimedPlan]:
    import jax

    from benchmarks.jax_peers.peers import list_peers
    from benchmarks.jax_step_time import draw
    from tests.models.jax.language import MODELS as BUILDERS
    from tofu.jax.compare.comparison import FREE, SPLIT

    comparison = make_comparison(name, workers, "cpu", search_seconds)
    lowered: dict[str, Callable[[], Any]] = {
        SPLIT: lambda: comparison.lower_plan(replicate="small")[0],
        FREE: lambda: comparison.lower_plan(replicate="free")[0],
    }
    lowered |= {label: partial(comparison.lower_peer, peer) for label, peer in list_peers(workers).items()}
    model = BUILDERS[name]()
    arguments = draw(model.state), draw(model.data)
    expected = float(jax.jit(model.step)(*arguments)[1])
    plans = []
    for label, lower in lowered.items():
        try:
            compiled = lower().compile()
        except ValueError:  # the batch, or a dimension that Megatron splits, is not divisible
            continue
        placed = jax.device_put(jax.tree.leaves(arguments), list(compiled.input_shardings[0]))
        length = len(jax.tree.leaves(arguments[0]))
        plan = TimedPlan(label, label in (SPLIT, FREE), compiled, placed[:length], placed[length:])
        loss = float(plan.run())
        if not abs(loss - expected) <= MOST_LOSS_ERROR * abs(expected):
            raise AssertionError(f"{name}, {label}: the loss is {loss}, and {expected} on one device")
        plans.append(plan)
    return plans


def time_plans(plans: Sequence[TimedPlan], rounds: int) -> None:
    """Run a step of each plan in turn, until the rounds or the time limit are reached."""
    started = time.perf_counter()
    while len(plans[0].seconds) < WARMING + rounds:
        for plan in plans:
            plan.run()
        if time.perf_counter() - started > MOST_SECONDS and len(plans[0].seconds) >= WARMING + LEAST_ROUNDS:
            return


def draw_table(name: str, workers: int, plans: Sequence[TimedPlan]) -> Table:
    table = Table("plan", title=f"{name}, {workers} virtual devices, {len(plans[0].seconds) - WARMING} rounds")
    for heading in ("ms a step", "quartiles", "of Tofu's"):
        table.add_column(heading, justify="right")
    for plan in plans:
        low, high = plan.quarters
        ratio = f"{plan.median / plans[0].median:.2f}"
        table.add_row(plan.name, f"{1e3 * plan.median:.1f}", f"{1e3 * low:.1f} to {1e3 * high:.1f}", ratio)
    return table


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--model", "models", multiple=True, help=f"By default {', '.join(MODELS)}.")
@click.option(
    "--rounds",
    type=click.IntRange(LEAST_ROUNDS),
    default=30,
    show_default=True,
    help="Timed steps of each plan.",
)
@click.option("--search-seconds", default=10.0, show_default=True)
def main(workers: int, models: tuple[str, ...], rounds: int, search_seconds: float) -> None:
    set_environment(workers, "cpu")
    from tests.models.jax.language import MODELS as BUILDERS

    chosen = [each for name in models or MODELS for each in choose_names(name, BUILDERS, ";")]
    console = Console(width=100)
    slow = []
    for name in track(chosen, "models", console=Console(stderr=True)):
        plans = compile_plans(name, workers, search_seconds)
        time_plans(plans, rounds)
        console.print(draw_table(name, workers, plans))
        fastest = min(plan.median for plan in plans if not plan.is_tofu)
        if plans[0].median > MOST_OF_BEST_PEER * fastest:
            slow.append(name)
            console.print(f"  [red]{plans[0].median / fastest:.2f} of the fastest peer's time[/]")
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
