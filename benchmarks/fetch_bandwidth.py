"""The bandwidth of the fetch kernel against memcpy of the same bytes, and of its sums against a plain loop.

    python -m benchmarks.fetch_bandwidth

A fetch assembles 64 MiB out of rows of two workers' shards, which lie side by side in it, so that nothing is contiguous for longer than a
row. The sum adds 8 partial results of 16 MiB; the plain loop is one line of C, made vectors of for this processor. All on one thread and in
MXNet's memory; every figure is the best of `--rounds`, with the two sides taking turns. Seconds are processor time, which other programs
disturb least.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import ctypes
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import mxnet as mx
from rich.console import Console
from rich.table import Table

from tests.shared.json_graph import JsonGraph, bind
from tofu import _mxnet

MIB = 1 << 20
GATHERED_BYTES = 64 * MIB
SUMMED_BYTES = 16 * MIB
SUMMED_PARTS = 8


def time_call(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def compare(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The fastest seconds of each, taking turns; the first round warms up."""
    pairs = [(time_call(ours), time_call(theirs)) for _ in range(rounds + 1)]
    return min(one for one, _ in pairs[1:]), min(other for _, other in pairs[1:])


def address_of(array: Any) -> int:
    return _mxnet.storage_info(array.handle.value)["address"]


def make_fetch(shapes: Sequence[tuple[int, ...]], region: tuple[int, ...], pieces: Any) -> Callable[[], Any]:
    """Runs a fetch of inputs full of ones, each on a device of its own."""
    graph = JsonGraph()
    inputs = [graph.add("null", f"x{i}", group=f"d{i}", __shape__=shape) for i, shape in enumerate(shapes)]
    head = graph.fetch("region", inputs, region, pieces, "d0")
    executor = bind(graph.symbol(head), {f"d{i}": mx.cpu(i) for i in range(len(shapes))})
    for array in executor.arg_arrays:
        array[:] = 1
    mx.nd.waitall()

    def run() -> None:
        executor.forward()
        mx.nd.waitall()

    return run


def measure_rows(row_bytes: int, rounds: int) -> tuple[float, float]:
    """Seconds to gather rows of two shards, and of memcpy."""
    columns, rows = row_bytes // 4, GATHERED_BYTES // row_bytes // 2
    pieces = [((0, i * columns), (rows, columns), [(i, (0, 0))]) for i in range(2)]
    fetch = make_fetch([(rows, columns)] * 2, (rows, 2 * columns), pieces)
    arrays = [mx.nd.ones((GATHERED_BYTES,), dtype="uint8") for _ in range(2)]
    target, source = (address_of(array) for array in arrays)
    return compare(fetch, lambda: ctypes.memmove(target, source, GATHERED_BYTES), rounds)


def compile_plain_sum(folder: Path) -> Any:
    """The plain loop: `total`, then the addresses of the parts, and the number of cells."""
    parts = range(SUMMED_PARTS)
    source = folder / "plain_sum.c"
    source.write_text(
        f"void plain_sum(float* restrict total, {', '.join(f'const float* p{i}' for i in parts)}, long cells) {{\n"
        f"  for (long i = 0; i < cells; ++i) total[i] = {' + '.join(f'p{i}[i]' for i in parts)};\n}}\n"
    )
    library = folder / "plain_sum.so"
    command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).plain_sum


def measure_sum(rounds: int) -> tuple[float, float]:
    """Seconds to sum partial results, and of the plain loop."""
    cells = SUMMED_BYTES // 4
    pieces = [((0,), (cells,), [(i, (0,)) for i in range(SUMMED_PARTS)])]
    fetch = make_fetch([(cells,)] * SUMMED_PARTS, (cells,), pieces)
    arrays = [mx.nd.ones((cells,)) for _ in range(SUMMED_PARTS + 1)]
    addresses = [ctypes.c_void_p(address_of(array)) for array in arrays]
    with TemporaryDirectory() as folder:
        plain_sum = compile_plain_sum(Path(folder))
    return compare(fetch, lambda: plain_sum(*addresses, ctypes.c_long(cells)), rounds)


@click.command(help=__doc__)
@click.option("--rounds", default=30, show_default=True)
def main(rounds: int) -> None:
    table = Table("", "fetch (GB/s)", "plain (GB/s)", "fetch over plain")

    def add_row(name: str, size: int, seconds: tuple[float, float]) -> None:
        ours, theirs = (size / taken / 1e9 for taken in seconds)
        table.add_row(name, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}")

    for row_bytes in (64, 256, 1024, 4096, 16384, 65536):
        add_row(f"rows of {row_bytes} B", GATHERED_BYTES, measure_rows(row_bytes, rounds))
    add_row(f"sum of {SUMMED_PARTS}", SUMMED_PARTS * SUMMED_BYTES, measure_sum(rounds))
    Console().print(table)


if __name__ == "__main__":
    main()
