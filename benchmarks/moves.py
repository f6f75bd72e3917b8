"""Bytes that slices, updates, cumulative sums and similar operators transfer, compared with the best known algorithm.

\b
    python -m benchmarks.moves
    python -m benchmarks.moves cumsum sort "argmax of a vector"

Each operator works along a split dimension of its array, in JAX and in MXNet. Planned bytes are also compared with the
bytes of XLA's program, or of MXNet's partitioned graph.
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
import mxnet as mx
from jax import lax
from rich.console import Console
from rich.table import Table

import tofu.jax
import tofu.mxnet
from tofu.jax.compare.traffic import count_traffic
from tofu.mxnet.check.execution import count_remote_bytes

ROWS, COLUMNS = 12288, 16
ROW = 4 * COLUMNS
INDEX = jax.ShapeDtypeStruct((), "int32")


@dataclass(frozen=True)
class ComparedOperator:
    """An operator on an array that is split by rows, in JAX and in MXNet. None means that the engine has no such operator.

    On k workers, the best algorithm transfers `least(k)` bytes.
    """

    jax: Any
    mxnet: Any
    least: Callable[[int], float]
    algorithm: str
    others: tuple[Any, ...] = ()
    shape: tuple[int, ...] = (ROWS, COLUMNS)
    with_gradient: bool = False


def move_none(workers: int) -> float:
    return 0


def exchange(size: int) -> Callable[[int], float]:
    """Return the bytes as a function of k, if each of k workers sends `size` bytes to each other worker."""
    return lambda workers: workers * (workers - 1) * size


def shift(count: int) -> Callable[[int], float]:
    """Return the bytes as a function of k, if all but one of k workers send `count` rows to a neighbor."""
    return lambda workers: (workers - 1) * count * ROW


def spread(count: int) -> Callable[[int], float]:
    """Return the bytes as a function of k, if one of k workers sends equal shares of `count` rows to all others."""
    return lambda workers: count * ROW * (workers - 1) / workers


def reduce(count: int) -> Callable[[int], float]:
    """Return the bytes as a function of k, of a reduce-scatter of `count` rows. Any of k workers may have a row."""
    return lambda workers: (workers - 1) * count * ROW


def exchange_all(times: int) -> Callable[[int], float]:
    """Return the bytes as a function of k, of `times` all-to-alls. Each of k workers keeps its part of the array."""
    return lambda workers: times * ROWS * ROW * (workers - 1) / workers


def list_indices(count: int) -> Any:
    return jax.ShapeDtypeStruct((count,), "int32")


def scan(x: Any, reverse: bool = False) -> Any:
    """Return cumulative sums of the rows, by a tree of pairs."""
    return lax.associative_scan(jnp.add, x, reverse=reverse)


def count_tree(workers: int) -> float:
    """Return the bytes if a row crosses each border between workers twice in each of 12 levels of a tree."""
    return 2 * 12 * (workers - 1) * ROW


def to_numpy(x: Any) -> Any:
    return x.as_np_ndarray()


def roll_in_mxnet(x: Any) -> Any:
    return mx.sym.np.roll(to_numpy(x), 1, 0).as_nd_ndarray()


def shift_in_mxnet(x: Any) -> Any:
    return mx.sym.concat(mx.sym.slice_axis(x, axis=0, begin=1, end=None), mx.sym.zeros((1, COLUMNS)), dim=0)


PARTIAL = "partial results"
VECTOR = (ROWS * COLUMNS,)
CASES = {
    "last row": ComparedOperator(
        lambda x: x[-1:] * 2,
        lambda x: mx.sym.slice_axis(x, axis=0, begin=-1, end=None) * 2,
        spread(1),
        "the row, shared",
    ),
    "last row and its gradient": ComparedOperator(
        lambda x: x[-1:] * 2,
        lambda x: mx.sym.slice(x, begin=(-1,), end=(None,)) * 2,
        lambda k: 2 * spread(1)(k),
        "the row, shared",
        with_gradient=True,
    ),
    "row by number": ComparedOperator(
        lambda x: x[3] * 2, lambda x: (to_numpy(x)[3] * 2).as_nd_ndarray(), spread(1), "the row, shared"
    ),
    "rows of another array": ComparedOperator(
        None,
        lambda x, like: mx.sym.slice_like(x, like, axes=0) * 2,
        spread(96),
        "the rows, shared",
        (jax.ShapeDtypeStruct((96, COLUMNS), "float32"),),
    ),
    "column": ComparedOperator(
        lambda x: x[:, 0] * 2, lambda x: mx.sym.slice_axis(x, axis=1, begin=0, end=1) * 2, move_none, "nothing"
    ),
    "every second row": ComparedOperator(
        lambda x: x[::2] * 2, lambda x: mx.sym.slice(x, begin=(None,), end=(None,), step=(2,)) * 2, move_none, "nothing"
    ),
    "roll": ComparedOperator(
        lambda x: jnp.roll(x, 1, 0) * 2, lambda x: roll_in_mxnet(x) * 2, lambda k: k * ROW, "one row each"
    ),
    "roll and its gradient": ComparedOperator(
        lambda x: jnp.roll(x, 1, 0) * 2,
        lambda x: roll_in_mxnet(x) * 2,
        lambda k: 2 * k * ROW,
        "one row each",
        with_gradient=True,
    ),
    "shift": ComparedOperator(lambda x: x.at[:-1].set(x[1:] * 2), lambda x: shift_in_mxnet(x) * 2, shift(1), "halo"),
    "stencil": ComparedOperator(lambda x: x.at[1:-1].add(x[:-2] + x[2:]), None, lambda k: 2 * (k - 1) * ROW, "halos"),
    "set every second row": ComparedOperator(lambda x: x.at[::2].set(0.0), None, move_none, "nothing"),
    "dynamic_slice": ComparedOperator(
        lambda x, i: lax.dynamic_slice(x, (i, 0), (1, COLUMNS)) * 2, None, reduce(1), "reduce-scatter", (INDEX,)
    ),
    "dynamic_update_slice": ComparedOperator(
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((1, COLUMNS)), (i, 0)), None, move_none, "nothing", (INDEX,)
    ),
    "cumsum": ComparedOperator(lambda x: jnp.cumsum(x, 0), lambda x: mx.sym.cumsum(x, axis=0), exchange(ROW), PARTIAL),
    "cumsum and its gradient": ComparedOperator(
        lambda x: jnp.cumsum(x, 0),
        lambda x: mx.sym.cumsum(x, axis=0),
        lambda k: 2 * exchange(ROW)(k),
        PARTIAL,
        with_gradient=True,
    ),
    "cumsum of a vector": ComparedOperator(jnp.cumsum, mx.sym.cumsum, exchange(4), PARTIAL, shape=VECTOR),
    "cumprod": ComparedOperator(lambda x: jnp.cumprod(x, 0), None, exchange(ROW), PARTIAL),
    "cumsum of a reversed array": ComparedOperator(
        lambda x: jnp.cumsum(x[::-1], 0)[::-1], None, exchange(ROW), PARTIAL
    ),
    "cummax": ComparedOperator(lambda x: lax.cummax(x, 0), None, exchange(ROW), PARTIAL),
    "cumlogsumexp": ComparedOperator(lambda x: lax.cumlogsumexp(x, 0), None, exchange(ROW), PARTIAL),
    "associative_scan": ComparedOperator(scan, None, count_tree, "tree of pairs"),
    "associative_scan, reversed": ComparedOperator(partial(scan, reverse=True), None, count_tree, "tree of pairs"),
    "argmax": ComparedOperator(
        lambda x: jnp.argmax(x, 0), lambda x: mx.sym.argmax(x, axis=0), exchange(2 * ROW), PARTIAL
    ),
    "argmax of a vector": ComparedOperator(
        jnp.argmax, lambda x: mx.sym.argmax(x, axis=0), exchange(8), PARTIAL, shape=VECTOR
    ),
    "argmin": ComparedOperator(
        lambda x: jnp.argmin(x, 0), lambda x: mx.sym.argmin(x, axis=0), exchange(2 * ROW), PARTIAL
    ),
    "top_k": ComparedOperator(
        lambda x: lax.top_k(x, 8),
        lambda x: mx.sym.Group(list(mx.sym.topk(x, k=8, ret_typ="both"))),
        exchange(8 * 8),
        PARTIAL,
        shape=VECTOR,
    ),
    "mean and its gradient": ComparedOperator(
        lambda x: jnp.mean(x, 0), lambda x: mx.sym.mean(x, axis=0), exchange(2 * ROW), PARTIAL, with_gradient=True
    ),
    "reshape": ComparedOperator(
        lambda x: jnp.sin(x.reshape(1600, 60)),
        lambda x: mx.sym.sin(mx.sym.reshape(x, shape=(1600, 60))),
        move_none,
        "nothing",
        shape=(1200, 80),
    ),
    "pick": ComparedOperator(
        lambda x, i: x[jnp.arange(ROWS), i], lambda x, i: mx.sym.pick(x, i), move_none, "nothing", (list_indices(ROWS),)
    ),
    "take": ComparedOperator(lambda x, i: x[i], mx.sym.take, reduce(96), "reduce-scatter", (list_indices(96),)),
    "take, negative indices": ComparedOperator(
        lambda x, i: jnp.take(x, i - 48, 0, mode="wrap"),
        lambda x, i: mx.sym.take(x, i - 48, mode="wrap"),
        reduce(96),
        "reduce-scatter",
        (list_indices(96),),
    ),
    "take of many": ComparedOperator(
        lambda x, i: x[i - 1],
        lambda x, i: mx.sym.take(x, i - 1),
        lambda k: exchange_all(1)(k) + (k - 1) * 4 * 4 * ROWS,
        "by columns",
        (list_indices(4 * ROWS),),
    ),
    "add to many rows": ComparedOperator(
        lambda x, i, rows: x.at[i - 48].add(rows),
        None,
        exchange_all(2),
        "by columns",
        (list_indices(ROWS), jax.ShapeDtypeStruct((ROWS, COLUMNS), "float32")),
    ),
    "sort": ComparedOperator(
        lambda x: jnp.sort(x, 0), lambda x: mx.sym.sort(x, axis=0), exchange_all(2), "all-to-all, twice"
    ),
    # The second all-to-all is of complex numbers.
    "fft of two axes": ComparedOperator(lambda x: jnp.abs(jnp.fft.fft2(x)), None, exchange_all(3), "all-to-all, twice"),
}


def measure_jax(case: ComparedOperator, workers: int) -> tuple[int, float]:
    def run(x: Any, *others: Any) -> Any:
        return case.jax(x, *others)

    def differentiate(x: Any, *others: Any) -> Any:
        result, find_gradient = jax.vjp(lambda x: case.jax(x, *others), x)
        return find_gradient(jnp.cos(result))

    arguments = jax.ShapeDtypeStruct(case.shape, "float32"), *case.others
    step = tofu.jax.partition(differentiate if case.with_gradient else run, workers, arguments, hints={"x": 0})
    return step.plan.communication_bytes, count_traffic(step.lower_leaves().compile().as_text(), workers).total


def measure_mxnet(case: ComparedOperator, workers: int) -> tuple[int, float]:
    x = mx.sym.Variable("x", shape=case.shape)
    others = {f"other{n}": other for n, other in enumerate(case.others)}
    variables = [mx.sym.Variable(name, dtype=other.dtype.name) for name, other in others.items()]
    result = case.mxnet(x, *variables)
    if case.with_gradient:
        result = mx.sym.MakeLoss(mx.sym.sin(result))
    shapes = {"data": (workers, 1), **{name: other.shape for name, other in others.items()}}
    symbol = mx.sym.Group([result, mx.sym.identity(mx.sym.Variable("data"))])
    split = tofu.mxnet.partition(symbol, workers, hints={"x": 0}, for_training=case.with_gradient, **shapes)
    return split.plan.communication_bytes, count_remote_bytes(split.planned().training.symbol)


MEASURES = {"jax": measure_jax, "mxnet": measure_mxnet}


@click.command(help=__doc__)
@click.argument("operators", nargs=-1, type=click.Choice(list(CASES)), metavar="[OPERATOR]...")
@click.option("--engine", type=click.Choice(list(MEASURES)), multiple=True, help="Engine to measure. Default: both.")
def main(operators: tuple[str, ...], engine: tuple[str, ...]) -> None:
    table = Table(
        "operator",
        "engine",
        "k",
        "planned",
        "in the program",
        "best algorithm",
        "its bytes",
        title="bytes moved by all workers",
    )
    for name in operators or CASES:
        case = CASES[name]
        for own_engine in engine or MEASURES:
            if getattr(case, own_engine) is None:
                continue
            for workers in (2, 4, 8):
                planned, counted = MEASURES[own_engine](case, workers)
                numbers = f"{planned:,}", f"{counted:,.0f}", case.algorithm, f"{case.least(workers):,.0f}"
                table.add_row(name, own_engine, str(workers), *numbers)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
