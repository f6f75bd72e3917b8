"""Bytes that slices, updates, cumulative sums and similar operators transfer, compared with the best known algorithm.

\b
    python -m benchmarks.jax_moves
    python -m benchmarks.jax_moves cumsum sort "argmax of a vector"

Each operator works along a split dimension of its array. Planned bytes are also compared with the bytes of XLA's
program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import click
import jax
import jax.numpy as jnp
from jax import lax
from rich.console import Console
from rich.table import Table

import tofu.jax
from tofu.jax.compare.traffic import count_traffic

ROWS, COLUMNS = 12288, 16
ROW = 4 * COLUMNS
INDEX = jax.ShapeDtypeStruct((), "int32")


@dataclass(frozen=True)
class ComparedOperator:
    """An operator on an array that is split by rows. On k workers, the best algorithm transfers `least(k)` bytes."""

    function: Callable[..., Any]
    least: Callable[[int], float]
    algorithm: str
    others: tuple[Any, ...] = ()
    shape: tuple[int, ...] = (ROWS, COLUMNS)


def move_none(workers: int) -> float:
    return 0


def exchange(size: int) -> Callable[[int], float]:
    """Return the bytes if each worker sends a partial result of `size` bytes to each other worker."""
    return lambda workers: workers * (workers - 1) * size


def shift(count: int) -> Callable[[int], float]:
    """Return the bytes if each worker except one sends `count` rows to a neighbor."""
    return lambda workers: (workers - 1) * count * ROW


def spread(count: int) -> Callable[[int], float]:
    """Return the bytes if one worker has `count` rows, and sends each other worker an equal share."""
    return lambda workers: count * ROW * (workers - 1) / workers


def reduce(count: int) -> Callable[[int], float]:
    """Return the bytes of a reduce-scatter of `count` rows. Each row is on one worker, which is unknown in advance."""
    return lambda workers: (workers - 1) * count * ROW


def exchange_all(times: int) -> Callable[[int], float]:
    """Return the bytes of `times` all-to-alls of the array. Each worker keeps its own part."""
    return lambda workers: times * ROWS * ROW * (workers - 1) / workers


def list_indices(count: int) -> Any:
    return jax.ShapeDtypeStruct((count,), "int32")


def scan(x: Any, reverse: bool = False) -> Any:
    """Return the sum of each row and all rows before it, by a tree of pairs."""
    return lax.associative_scan(jnp.add, x, reverse=reverse)


def count_tree(workers: int) -> float:
    """Return the bytes if a row crosses each border between workers twice in each of 12 levels of a tree."""
    return 2 * 12 * (workers - 1) * ROW


PARTIAL = "partial results"
CASES = {
    "last row": ComparedOperator(lambda x: x[-1:] * 2, spread(1), "the row, shared"),
    "row by number": ComparedOperator(lambda x: x[3] * 2, spread(1), "the row, shared"),
    "column": ComparedOperator(lambda x: x[:, 0] * 2, move_none, "nothing"),
    "every second row": ComparedOperator(lambda x: x[::2] * 2, move_none, "nothing"),
    "roll": ComparedOperator(lambda x: jnp.roll(x, 1, 0) * 2, lambda k: k * ROW, "one row each"),
    "shift": ComparedOperator(lambda x: x.at[:-1].set(x[1:] * 2), shift(1), "halo"),
    "stencil": ComparedOperator(lambda x: x.at[1:-1].add(x[:-2] + x[2:]), lambda k: 2 * (k - 1) * ROW, "halos"),
    "set every second row": ComparedOperator(lambda x: x.at[::2].set(0.0), move_none, "nothing"),
    "dynamic_slice": ComparedOperator(
        lambda x, i: lax.dynamic_slice(x, (i, 0), (1, COLUMNS)) * 2, reduce(1), "reduce-scatter", (INDEX,)
    ),
    "dynamic_update_slice": ComparedOperator(
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((1, COLUMNS)), (i, 0)), move_none, "nothing", (INDEX,)
    ),
    "cumsum": ComparedOperator(lambda x: jnp.cumsum(x, 0), exchange(ROW), PARTIAL),
    "cumsum of a vector": ComparedOperator(jnp.cumsum, exchange(4), PARTIAL, shape=(ROWS * COLUMNS,)),
    "cumprod": ComparedOperator(lambda x: jnp.cumprod(x, 0), exchange(ROW), PARTIAL),
    "cumsum of a reversed array": ComparedOperator(lambda x: jnp.cumsum(x[::-1], 0)[::-1], exchange(ROW), PARTIAL),
    "cummax": ComparedOperator(lambda x: lax.cummax(x, 0), exchange(ROW), PARTIAL),
    "cumlogsumexp": ComparedOperator(lambda x: lax.cumlogsumexp(x, 0), exchange(ROW), PARTIAL),
    "associative_scan": ComparedOperator(scan, count_tree, "tree of pairs"),
    "associative_scan, reversed": ComparedOperator(partial(scan, reverse=True), count_tree, "tree of pairs"),
    "argmax": ComparedOperator(lambda x: jnp.argmax(x, 0), exchange(2 * ROW), PARTIAL),
    "argmax of a vector": ComparedOperator(jnp.argmax, exchange(8), PARTIAL, shape=(ROWS * COLUMNS,)),
    "argmin": ComparedOperator(lambda x: jnp.argmin(x, 0), exchange(2 * ROW), PARTIAL),
    "top_k": ComparedOperator(lambda x: lax.top_k(x, 8), exchange(8 * 8), PARTIAL, shape=(ROWS * COLUMNS,)),
    "reshape": ComparedOperator(lambda x: jnp.sin(x.reshape(1600, 60)), move_none, "nothing", shape=(1200, 80)),
    "pick": ComparedOperator(lambda x, i: x[jnp.arange(ROWS), i], move_none, "nothing", (list_indices(ROWS),)),
    "take": ComparedOperator(lambda x, i: x[i], reduce(96), "reduce-scatter", (list_indices(96),)),
    "take, negative indices": ComparedOperator(
        lambda x, i: jnp.take(x, i - 48, 0, mode="wrap"), reduce(96), "reduce-scatter", (list_indices(96),)
    ),
    "take of many": ComparedOperator(
        lambda x, i: x[i - 1],
        lambda k: exchange_all(1)(k) + (k - 1) * 4 * 4 * ROWS,
        "by columns",
        (list_indices(4 * ROWS),),
    ),
    "add to many rows": ComparedOperator(
        lambda x, i, rows: x.at[i - 48].add(rows),
        exchange_all(2),
        "by columns",
        (list_indices(ROWS), jax.ShapeDtypeStruct((ROWS, COLUMNS), "float32")),
    ),
    "sort": ComparedOperator(lambda x: jnp.sort(x, 0), exchange_all(2), "all-to-all, twice"),
    # The second all-to-all is of complex numbers.
    "fft of two axes": ComparedOperator(lambda x: jnp.abs(jnp.fft.fft2(x)), exchange_all(3), "all-to-all, twice"),
}


def measure(case: ComparedOperator, workers: int) -> tuple[int, float]:
    def run(x: Any, *others: Any) -> Any:
        return case.function(x, *others)

    arguments = jax.ShapeDtypeStruct(case.shape, "float32"), *case.others
    step = tofu.jax.partition(run, workers, arguments, hints={"x": 0})
    counted = count_traffic(step.lower_leaves().compile().as_text(), workers)
    return step.plan.communication_bytes, counted.total


@click.command(help=__doc__)
@click.argument("operators", nargs=-1, type=click.Choice(list(CASES)), metavar="[OPERATOR]...")
def main(operators: tuple[str, ...]) -> None:
    table = Table(
        "operator", "k", "planned", "in HLO", "best algorithm", "its bytes", title="bytes moved by all workers"
    )
    for name in operators or CASES:
        case = CASES[name]
        for workers in (2, 4, 8):
            planned, counted = measure(case, workers)
            least = case.least(workers)
            table.add_row(name, str(workers), f"{planned:,}", f"{counted:,.0f}", case.algorithm, f"{least:,.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
