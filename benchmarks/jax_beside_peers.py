"""How long a step takes on virtual devices of this machine, under Tofu's plans and under those that people make by hand.

    python -m benchmarks.jax_beside_peers
    python -m benchmarks.jax_beside_peers --workers 4 --model MLP --model "LSTM 2x4" --rounds 40

All plans of a model run in one process, a step of each by turns, from the same state. A time is the median of the rounds; what a quarter
of the steps was below, and a quarter above, says how much it wavers. The devices are threads that share this machine's processors and its
memory, so that a byte moved costs a copy, and a collective the time until all threads have come to it: as on no accelerator. The benchmark
fails where Tofu's plan takes much longer than the fastest of the others.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
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
WARMING, LEAST_ROUNDS = 2, 3  # rounds that fill what is kept, and that are timed in any case
MOST_LOSS_ERROR = 1e-4  # of a float32 loss after the first step, relative to that of one device


@dataclass
class Timed:
    """A compiled step of arrays, the state and the rest where it wants them, and the seconds that its steps took."""

    name: str
    is_tofu: bool
    compiled: Any
    state: list[Any]
    data: list[Any]
    seconds: list[float] = field(default_factory=list)

    def run(self) -> Any:
        """One step, from the last state on; gives the loss."""
        import jax

        started = time.perf_counter()
        *self.state, loss = jax.block_until_ready(self.compiled(*self.state, *self.data))
        self.seconds.append(time.perf_counter() - started)
        return loss

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return statistics.median(self.seconds[WARMING:])

    @property
    def quarters(self) -> tuple[float, float]:
        """A quarter of the steps took less than the first, and a quarter more than the second."""
        first, _, third = statistics.quantiles(self.seconds[WARMING:], n=4)
        return first, third


def compile_plans(name: str, workers: int, search_seconds: float) -> Sequence[Timed]:
    """The step of a model under every plan that applies, Tofu's first."""
    import jax

    from benchmarks.jax_peers import models
    from benchmarks.jax_peers.peers import list_peers
    from benchmarks.jax_step_time import draw
    from tofu.jax.compare.comparison import FREE, SPLIT

    comparison = make_comparison(name, workers, "cpu", search_seconds)
    own: Mapping[str, Callable[[], Any]] = {
        SPLIT: lambda: comparison.lower_plan(replicate="small")[0],
        FREE: lambda: comparison.lower_plan(replicate="free")[0],
    }
    others = {label: partial(comparison.lower_peer, peer) for label, peer in list_peers(workers).items()}
    model = models.MODELS[name]()
    arguments = draw(model.state), draw(model.data)
    expected = float(jax.jit(model.step)(*arguments)[1])
    found = []
    for label, lower in {**own, **others}.items():
        try:
            compiled = lower().compile()
        except ValueError:  # the batch, or a dimension that Megatron splits, does not come out even
            continue
        laid = jax.device_put(jax.tree.leaves(arguments), list(compiled.input_shardings[0]))
        length = len(jax.tree.leaves(arguments[0]))
        one = Timed(label, label in own, compiled, laid[:length], laid[length:])
        loss = float(one.run())
        if not abs(loss - expected) <= MOST_LOSS_ERROR * abs(expected):
            raise AssertionError(f"{name}, {label}: the loss is {loss}, and {expected} on one device")
        found.append(one)
    return found


def time_plans(plans: Sequence[Timed], rounds: int) -> None:
    """A step of each by turns, until there are so many rounds or their time is over."""
    started = time.perf_counter()
    while len(plans[0].seconds) < WARMING + rounds:
        for one in plans:
            one.run()
        if time.perf_counter() - started > MOST_SECONDS and len(plans[0].seconds) >= WARMING + LEAST_ROUNDS:
            return


def draw_table(name: str, workers: int, plans: Sequence[Timed]) -> Table:
    """The plans of a model, and each one's time over that of Tofu's default plan."""
    table = Table("plan", title=f"{name}, {workers} virtual devices, {len(plans[0].seconds) - WARMING} rounds")
    for heading in ("ms a step", "half of them within", "of Tofu's"):
        table.add_column(heading, justify="right")
    for one in plans:
        low, high = one.quarters
        ratio = f"{one.median / plans[0].median:.2f}"
        table.add_row(one.name, f"{1e3 * one.median:.1f}", f"{1e3 * low:.1f} to {1e3 * high:.1f}", ratio)
    return table


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--model", "models", multiple=True, help=f"By default {', '.join(MODELS)}.")
@click.option(
    "--rounds",
    type=click.IntRange(LEAST_ROUNDS),
    default=30,
    show_default=True,
    help="How often each plan's step is timed.",
)
@click.option("--search-seconds", default=10.0, show_default=True)
def main(workers: int, models: tuple[str, ...], rounds: int, search_seconds: float) -> None:
    set_environment(workers, "cpu")
    from benchmarks.jax_peers import models as known

    asked = [one for name in models or MODELS for one in choose_names(name, known.MODELS, ";")]
    console = Console(width=100)
    slow = []
    for name in track(asked, "models", console=Console(stderr=True)):
        plans = compile_plans(name, workers, search_seconds)
        time_plans(plans, rounds)
        console.print(draw_table(name, workers, plans))
        fastest = min(one.median for one in plans if not one.is_tofu)
        if plans[0].median > MOST_OF_BEST_PEER * fastest:
            slow.append(name)
            console.print(f"  [red]{plans[0].median / fastest:.2f} of the fastest peer's time[/]")
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
