"""Compare the plans of the paper's models and of 50 random ones with recorded plans.

\b
    python -m tests.campaigns.pins              compares; the exit code is 1 if a plan changed
    python -m tests.campaigns.pins --write      writes the plans of this tree to tests/campaigns/pinned_plans.json

A pin is a digest of a plan's splits and byte counts, with two byte counts to read. It contains no wording and no field
names. A plan proved optimal must stay the same. Other plans depend on the time of the search: they must not transfer
more bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

import tofu
from tests.campaigns.fuzz.models import choose_kind, make_sample
from tests.models.paper.by_name import MEASURED
from tests.shared.stages import Stages
from tofu.mxnet.frontend.read_symbol import find_labels
from tofu.mxnet.planning import plan_task, read_task
from tofu.planning.settings import Settings

PATH = Path(__file__).with_name("pinned_plans.json")
WORKERS = (2, 3, 4, 6, 8)
RANDOM_MODELS = 50


@dataclass(frozen=True)
class Pin:
    """Record of a plan. A model without a plan has `is_refused` only.

    `moved_bytes` is the communication of a training step, `worker_bytes` the most memory that a worker needs. A proved plan does not
    depend on the time of the search.
    """

    is_refused: bool = False
    is_proved: bool = False
    moved_bytes: int = 0
    worker_bytes: int = 0
    digest: str = ""


def digest_splits(plan: tofu.Plan) -> str:
    """Return a digest of a plan's splits and byte counts."""
    content = (
        plan.factors,
        sorted((name, tuple(steps)) for name, steps in plan.tensors.items()),
        sorted((name, tuple(axes)) for name, axes in plan.operators.items()),
        sorted(plan.kept),
        sorted(plan.reread),
        plan.step_bytes,
        plan.level_bytes,
        plan.worker_bytes,
    )
    return sha256(repr(content).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Pinned:
    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]
    differentiated: tuple[str, ...]
    dtypes: Mapping[str, Any] | None = None

    def pin(self, workers: int) -> Pin:
        settings, stages = Settings(workers, cache=False), Stages()
        named = {"dtypes": self.dtypes, "differentiated": self.differentiated, "updated": self.differentiated}
        try:
            plan = plan_task(read_task(self.symbol, self.shapes, settings, **named), observe=stages).plan
        except tofu.TofuError:
            return Pin(is_refused=True)
        is_proved = stages.values["selected"].lower_bound >= plan.communication_bytes
        return Pin(False, is_proved, plan.communication_bytes, max(plan.worker_bytes), digest_splits(plan))


def list_models() -> Iterator[tuple[str, Pinned]]:
    for name, build in MEASURED.items():
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
    models = [(name, model) for name, model in list_models() if pattern in name]
    return {
        f"{name} / {workers}": model.pin(workers)
        for name, model in track(models, "plans", console=Console(stderr=True))
        for workers in WORKERS
    }


def compare(found: Mapping[str, Pin], pinned: Mapping[str, Pin]) -> list[str]:
    lines = ((name, describe_change(pin, pinned.get(name))) for name, pin in found.items())
    return [f"{name}: {change}" for name, change in lines if change]


def describe_change(pin: Pin, before: Pin | None) -> str:
    if before is None:
        return "not written down"
    if pin.is_refused or before.is_refused:
        return "" if pin == before else f"{'refused' if pin.is_refused else 'planned'} now"
    if pin.moved_bytes > before.moved_bytes:
        return f"more bytes: {pin.moved_bytes:,} moved, {before.moved_bytes:,} before"
    if not before.is_proved:
        return ""
    if pin.moved_bytes < before.moved_bytes:
        return f"fewer bytes: {pin.moved_bytes:,} moved, {before.moved_bytes:,} before"
    if pin.digest != before.digest:
        return f"other splits, {pin.moved_bytes:,} bytes as before; a worker needs {pin.worker_bytes:,}, {before.worker_bytes:,} before"
    return "" if pin.is_proved else "not proved now"


def read_pins(path: Path) -> dict[str, Pin]:
    return {name: Pin(**pin) for name, pin in json.loads(path.read_text()).items()}


def write_pins(path: Path, pins: Mapping[str, Pin]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(pin))}" for name, pin in pins.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Write the plans down.")
@click.option("--only", default="", help="Models whose name contains this.")
@click.option("--path", type=Path, default=PATH, help="The file with the pins.")
def main(write: bool, only: str, path: Path) -> None:
    found = make_pins(only)
    proved = sum(pin.is_proved for pin in found.values())
    refused = sum(pin.is_refused for pin in found.values())
    counts = f"{len(found)} plans: {proved} proved, {len(found) - proved - refused} not proved, {refused} refused"
    if write:
        write_pins(path, found)
        click.echo(f"{counts}; written to {path}")
        return
    lines = compare(found, read_pins(path))
    click.echo("\n".join([*lines, f"{counts}; {len(lines)} changed"]))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
