"""`python -m tofu diff`: where two saved plans differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tofu.plan import Plan, format_bytes
from tofu.planning.settings import read_plan

SCALARS = ("workers", "factors", "algorithm", "optimality", "fingerprint", "kept", "reread", "bandwidths", "latencies")
NAMED = ("inputs", "operators", "tensors")


@click.command(name="diff")
@click.argument("first", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("second", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def diff(first: Path, second: Path) -> None:
    """Show where the plans in two files differ: what moves, memory, and how each operator and tensor is split.

    \b
    Example
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --save a.json
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --algorithm recursive --save b.json
        python -m tofu diff a.json b.json

    A file is one that --save of `python -m tofu plan` wrote, or Plan.to_json(). Status 1 where the plans differ.
    """  # noqa: D301  click reads the escape
    lines = list(compare_plans(read_plan(first), read_plan(second)))
    click.echo("\n".join(lines) if lines else "The plans are equal.")
    if lines:
        raise click.exceptions.Exit(1)


def compare_plans(first: Plan, second: Plan) -> Iterator[str]:
    """A line for each thing in which two plans differ."""
    for name, one, other in (
        ("bytes that move", first.communication_bytes, second.communication_bytes),
        ("memory of the fullest worker", max(first.worker_bytes), max(second.worker_bytes)),
    ):
        if one != other:
            yield f"{name}: {format_bytes(one)} -> {format_bytes(other)} ({(other - one) / max(one, 1):+.1%})"
    for name in SCALARS:
        if getattr(first, name) != getattr(second, name):
            yield f"{name}: {_show(getattr(first, name))} -> {_show(getattr(second, name))}"
    for name in NAMED:
        yield from _compare_named(name.removesuffix("s"), getattr(first, name), getattr(second, name))


def _compare_named(kind: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*first, *second)):
        one, other = (_show(plan[name]) if name in plan else "not there" for plan in (first, second))
        if one != other:
            yield f"{kind} {name}: {one} -> {other}"


def _show(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join("-" if part is None else str(part) for part in value) or "none"
    return str(value)
