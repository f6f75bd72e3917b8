"""`python -m tofu diff`: show the differences between two saved plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tofu.formatting import format_bytes
from tofu.plan import Plan
from tofu.planning.settings import read_plan

SCALARS = ("workers", "factors", "algorithm", "optimality", "fingerprint", "kept", "reread", "bandwidths", "latencies")
NAMED = ("inputs", "operators", "tensors")


@click.command(name="diff")
@click.argument("first", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("second", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def diff(first: Path, second: Path) -> None:
    """Show the differences between two saved plans.

    Prints differences in bytes moved, in memory, and in the split of each operator and tensor. FIRST and SECOND are
    files that `python -m tofu plan --save` wrote, or that contain the text of Plan.to_json(). The exit status is 1 if
    the plans differ.

    \b
    Example:
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --save a.json
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --algorithm recursive --save b.json
        python -m tofu diff a.json b.json
    """  # noqa: D301  click reads the escape
    lines = list(compare_plans(read_plan(first), read_plan(second)))
    click.echo("\n".join(lines) if lines else "The plans are equal.")
    if lines:
        raise click.exceptions.Exit(1)


def compare_plans(first: Plan, second: Plan) -> Iterator[str]:
    """Yield a line of text for each difference between two plans."""
    for name, before, after in (
        ("bytes moved", first.communication_bytes, second.communication_bytes),
        (f"{first.measured} of the fullest worker", max(first.worker_bytes), max(second.worker_bytes)),
    ):
        if before != after:
            yield f"{name}: {format_bytes(before)} -> {format_bytes(after)} ({(after - before) / max(before, 1):+.1%})"
    for name in SCALARS:
        if getattr(first, name) != getattr(second, name):
            yield f"{name}: {_format_value(getattr(first, name))} -> {_format_value(getattr(second, name))}"
    for name in NAMED:
        yield from _compare_named(name.removesuffix("s"), getattr(first, name), getattr(second, name))


def _compare_named(kind: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*first, *second)):
        before, after = (_format_value(plan[name]) if name in plan else "missing" for plan in (first, second))
        if before != after:
            yield f"{kind} {name}: {before} -> {after}"


def _format_value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join("-" if part is None else str(part) for part in value) or "none"
    return str(value)
