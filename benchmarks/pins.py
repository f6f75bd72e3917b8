"""The plans of the paper's models and of 50 random ones, held against those that were written down: what changes a plan is noticed.

    python -m benchmarks.pins              compares; the exit code is 1 where a plan is another one
    python -m benchmarks.pins --write      writes them down anew, in benchmarks/pinned_plans.json

A plan that is proved to be optimal has to be the same to the byte: its digest is of every split, count and word of it. One that is not
proved depends on the time that its search had, and has to move no more bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

import tofu
from benchmarks.fuzz.models import choose_kind, make_sample
from benchmarks.search import MODELS
from tofu.mxnet.frontend.read_symbol import find_labels
from tofu.mxnet.partition import plan_task, read_task
from tofu.planning.settings import Settings

PATH = Path(__file__).with_name("pinned_plans.json")
WORKERS = (2, 3, 4, 6, 8)
RANDOM_MODELS = 50


@dataclass(frozen=True)
class Pin:
    """What is written down of a plan; of a refusal its kind alone."""

    optimality: str
    fingerprint: str = ""
    communication_bytes: int = 0
    worker_bytes: tuple[int, ...] = ()
    digest: str = ""

    @property
    def is_proved(self) -> bool:
        """Whether no time of the search has a say in it."""
        return self.optimality.startswith("optimal")


@dataclass(frozen=True)
class Pinned:
    """A model whose plans are pinned: its symbol, the shapes of its inputs, and the gradients that are asked for."""

    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]
    differentiated: tuple[str, ...]
    dtypes: Mapping[str, Any] | None = None

    def pin(self, workers: int) -> Pin:
        """The plan that users get."""
        settings = Settings(workers, cache=False)
        named = {"dtypes": self.dtypes, "differentiated": self.differentiated, "updated": self.differentiated}
        try:
            plan = plan_task(read_task(self.symbol, self.shapes, settings, **named)).plan
        except tofu.TofuError as error:
            return Pin(type(error).__name__)
        return Pin(plan.optimality, plan.fingerprint, plan.communication_bytes, plan.worker_bytes, plan.digest)


def list_models() -> Iterator[tuple[str, Pinned]]:
    """Names and models, each made when it is asked for."""
    for name, build in MODELS.items():
        model = build()
        given = {*model.shapes, *find_labels(model.symbol)}
        yield (
            name,
            Pinned(model.symbol, model.shapes, tuple(a for a in model.symbol.list_arguments() if a not in given)),
        )
    for seed in range(RANDOM_MODELS):
        kind = choose_kind(seed, "all")
        sample = make_sample(seed, kind)
        wanted = tuple(name for name, request in sample.requests.items() if request != "null")
        types = {name: value.dtype for name, value in sample.values.items()}
        yield f"{kind} {seed}", Pinned(sample.symbol, sample.shapes, wanted, types)


def make_pins(pattern: str) -> dict[str, Pin]:
    """Model and number of workers -> what is pinned."""
    models = [(name, model) for name, model in list_models() if pattern in name]
    return {
        f"{name} / {workers}": model.pin(workers)
        for name, model in track(models, "plans", console=Console(stderr=True))
        for workers in WORKERS
    }


def compare(found: Mapping[str, Pin], pinned: Mapping[str, Pin]) -> list[str]:
    """A line for each plan that is not as it was written down."""
    lines = []
    for name, pin in found.items():
        before = pinned.get(name)
        if before is None:
            lines.append(f"{name}: nothing was written down")
        elif not before.is_proved and pin.fingerprint == before.fingerprint and before.fingerprint:
            if pin.communication_bytes > before.communication_bytes:
                lines.append(f"{name}: {pin.communication_bytes:,} bytes, {before.communication_bytes:,} before")
        elif pin != before:
            changed = [key for key, value in asdict(pin).items() if value != asdict(before)[key]]
            lines.append(f"{name}: another {', '.join(changed)}; {pin} now, {before} before")
    return lines


def read_pins(path: Path) -> dict[str, Pin]:
    """What was written down."""
    kept = json.loads(path.read_text())
    return {name: Pin(**{**pin, "worker_bytes": tuple(pin["worker_bytes"])}) for name, pin in kept.items()}


def write_pins(path: Path, pins: Mapping[str, Pin]) -> None:
    """One line for each plan."""
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(pin))}" for name, pin in pins.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Write the plans down anew.")
@click.option("--only", default="", help="Models whose name has this in it.")
@click.option("--path", type=Path, default=PATH, help="Where they are written.")
def main(write: bool, only: str, path: Path) -> None:
    found = make_pins(only)
    proved = sum(pin.is_proved for pin in found.values())
    refused = sum(not pin.fingerprint for pin in found.values())
    counts = f"{len(found)} plans: {proved} proved, {len(found) - proved - refused} not proved, {refused} refused"
    if write:
        write_pins(path, found)
        click.echo(f"{counts}; written to {path}")
        return
    lines = compare(found, read_pins(path))
    click.echo("\n".join([*lines, f"{counts}; {len(lines)} are not as they were"]))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
