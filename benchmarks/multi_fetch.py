"""Results and bandwidth of the fetch kernel on a GPU, for random fetches and for fetches of real plans.

    python -m benchmarks.multi_fetch                 needs a GPU, CuPy (pip install "cupy-cuda12x[ctk]") and a C++ compiler
                                                     (g++, or pip install ziglang), but no MXNet
    python -m benchmarks.multi_fetch --emulate       the same checks on the CPU, thread by thread, without times

A fetch assembles a region from shards of several GPUs. The MXNet operator uses the same source, tables and launcher
(csrc/cuda). Results are compared with NumPy, and in the timed cases also with CuPy. Bandwidth is the bytes that must be
read and written, divided by the median time. The share is relative to a device-to-device copy of as many bytes, and the
speed-up to CuPy's slices, copies, additions and concatenations.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fetch_geometry import (
    FOLDER,
    Fetch,
    FetchPiece,
    bordered,
    load,
    random_fetch,
    side_by_side,
    stacked,
    summed,
)
from benchmarks.fetch_gpus import CupyGpus, EmulatedGpu, GpuError, NativeFetch

MIB = 1 << 20
GIB = 1 << 30
SPEEDUP_GOAL = 2.0  # over CuPy
TYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int64", "bool")


def random_arrays(fetch: Fetch, dtype: str, seed: int) -> list[NDArray[Any]]:
    """Return small integers, whose sums are exact in every type and order."""
    rng = np.random.RandomState(seed)
    return [rng.randint(0, 2 if dtype == "bool" else 15, shape).astype(dtype) for shape in fetch.inputs]


def check(gpu: Any, fetch: Fetch, dtype: str, seed: int) -> None:
    """Check a fetch that overwrites its output, and a fetch that adds to it. Compare with NumPy."""
    inputs = random_arrays(fetch, dtype, seed)
    placed = [gpu.place(array, i % gpu.gpus) for i, array in enumerate(inputs)]
    output = gpu.place(np.zeros(fetch.shape, dtype), 0)
    native_fetch = NativeFetch(gpu.library, fetch, dtype, gpu.gpus)
    expected = fetch.compute(np, inputs, dtype)
    for adds in (False, True):
        native_fetch.launch(gpu.address(output), [gpu.address(array) for array in placed], adds=adds)
        result = gpu.fetch_back(output)
        wanted = expected + expected if adds else expected
        if not np.array_equal(result, wanted):
            raise AssertionError(
                f"{fetch.name}, {dtype}, adds={adds}: {np.sum(result != wanted)} elements differ from NumPy's"
            )


def check_all(gpu: Any, random: int, plans: Sequence[Fetch]) -> None:
    for seed in range(random):
        check(gpu, random_fetch(seed), TYPES[seed % len(TYPES)], seed)
    for fetch in plans:
        check(gpu, fetch, "float32", 0)
    print(
        f"{random} random geometries and {len(plans)} of real plans: equal to NumPy, written and added. Inputs on {gpu.gpus} GPU(s)."
    )


def check_large(gpu: Any, columns: int = GIB + 1) -> None:
    """Check a fetch of more than 2^31 single bytes, at odd addresses."""
    piece = FetchPiece((0, 0), (3, columns), ((0, (0, 1)),))
    fetch = Fetch("single bytes", (3, columns), ((3, columns + 1),), (piece,))
    source = gpu.cupy.empty((3, columns + 1), "uint8")
    for row in range(3):  # one by one: some versions of CuPy count up to 2^31 only
        source[row] = gpu.cupy.tile(gpu.cupy.arange(row, 251 - row, dtype="uint8"), columns // 245 + 2)[: columns + 1]
    output = gpu.cupy.zeros((3, columns), "uint8")
    NativeFetch(gpu.library, fetch, "uint8", 1).launch(gpu.address(output), [gpu.address(source)])
    if not all(bool((output[row] == source[row, 1:]).all()) for row in range(3)):
        raise AssertionError(f"{output.size:,} single bytes: not all equal their source")
    print(f"{output.size:,} single bytes: equal to their source.")


@dataclass(frozen=True)
class TimedFetch:
    """A fetch to time, and the goal for its share of a copy's bandwidth."""

    fetch: Fetch
    goal: float | None = None


def timed_cases(plans: Sequence[Fetch], mib: int) -> list[TimedFetch]:
    cells = mib * MIB // 4

    def rows(name: str, row_bytes: int, goal: float) -> TimedFetch:
        columns = row_bytes // 4
        return TimedFetch(side_by_side(name, 4, cells // 4 // columns, columns, padding=columns), goal)

    return [
        TimedFetch(stacked("contiguous, 64 MiB", 8, 2 * MIB), 0.9),
        TimedFetch(stacked(f"contiguous, {mib} MiB", 8, cells // 8), 0.9),
        rows("rows of 4 KiB", 4096, 0.85),
        rows("rows of 512 B", 512, 0.7),
        rows("rows of 64 B", 64, 0.4),
        TimedFetch(summed("sum of 8", 8, cells // 4), 0.85),
        TimedFetch(side_by_side("gather of columns", 16, cells // 16, 1, padding=3)),
        TimedFetch(bordered("images of 56 x 56 with a border", cells // 56**2, 56)),
        *(TimedFetch(fetch) for fetch in plans),
    ]


@dataclass(frozen=True)
class Timing:
    """A row of the table."""

    case: TimedFetch
    bytes_moved: int
    seconds: float
    copy_seconds: float  # of a device-to-device copy of as many bytes
    cupy_seconds: float

    @property
    def bandwidth(self) -> float:
        return self.bytes_moved / self.seconds

    @property
    def share(self) -> float:
        return self.copy_seconds / self.seconds

    @property
    def speedup(self) -> float:
        return self.cupy_seconds / self.seconds


def time_case(gpu: CupyGpus, case: TimedFetch, runs: int) -> Timing:
    fetch, dtype = case.fetch, "float32"
    inputs = [_numbers(gpu.cupy, shape, i) for i, shape in enumerate(fetch.inputs)]
    output = gpu.cupy.empty(fetch.shape, dtype)
    native_fetch = NativeFetch(gpu.library, fetch, dtype, 1)
    addresses = [gpu.address(array) for array in inputs]
    target = gpu.address(output)
    moved = fetch.bytes_moved(4)
    source, copied = (gpu.cupy.empty((moved // 2,), "uint8") for _ in range(2))
    gpu.cupy.cuda.Device(0).synchronize()
    seconds = gpu.seconds(lambda: native_fetch.launch(target, addresses, gpu.stream.ptr), runs)
    if not bool((output == fetch.compute(gpu.cupy, inputs, dtype)).all()):
        raise AssertionError(f"{fetch.name}: the region differs from CuPy's")
    return Timing(
        case,
        moved,
        seconds,
        gpu.seconds(lambda: gpu.copy(copied, source, moved // 2), runs),
        gpu.seconds(lambda: fetch.compute(gpu.cupy, inputs, dtype), runs),
    )


def _numbers(library: Any, shape: Sequence[int], first: int) -> Any:
    cells = int(np.prod(shape))
    return ((library.arange(cells, dtype="int32") + first) % 15).astype("float32").reshape(shape)


def print_table(timings: Sequence[Timing], device: str) -> None:
    print(f"\n{device}, float32\n")
    print(f"{'region':44} {'MiB':>7} {'GB/s':>7} {'copy':>7} {'share':>6} {'goal':>5} {'over CuPy':>9} {'goal':>5}")
    for t in timings:
        goal = "" if t.case.goal is None else f"{t.case.goal:.2f}"
        copy = t.bytes_moved / t.copy_seconds / 1e9
        print(
            f"{t.case.fetch.name[:44]:44} {t.bytes_moved / MIB:7.0f} {t.bandwidth / 1e9:7.0f} {copy:7.0f} "
            f"{t.share:6.2f} {goal:>5} {t.speedup:8.1f}x {SPEEDUP_GOAL:4.1f}x"
        )
    reached = [t.share >= t.case.goal for t in timings if t.case.goal is not None]
    speedups = sum(t.speedup >= SPEEDUP_GOAL for t in timings)
    print(f"\nGoals reached: {sum(reached)} of {len(reached)} shares, {speedups} of {len(timings)} speed-ups.")


def save_figures(timings: Sequence[Timing], device: str, path: Path) -> None:
    rows = [
        {
            "region": timing.case.fetch.name,
            "bytes": timing.bytes_moved,
            "bandwidth": timing.bandwidth,
            "share": timing.share,
            "goal": timing.case.goal,
            "speedup": timing.speedup,
        }
        for timing in timings
    ]
    path.write_text(json.dumps({"device": device, "rows": rows}, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multi_fetch", description=__doc__.split("\n")[0])
    parser.add_argument("--emulate", action="store_true", help="run on the CPU, thread by thread, without times")
    parser.add_argument("--random", type=int, default=200, help="number of random geometries (200)")
    parser.add_argument("--mib", type=int, default=512, help="size of the timed regions (512)")
    parser.add_argument("--runs", type=int, default=30, help="timed runs of each case, after 5 to warm up (30)")
    parser.add_argument("--json", type=Path, help="file for the figures, as JSON")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except GpuError as error:
        sys.exit(f"This benchmark cannot use the GPU: {error}.")


def run(options: argparse.Namespace) -> None:
    gpu: Any = EmulatedGpu() if options.emulate else CupyGpus()
    name, capability = gpu.library.describe()
    device = f"{name} ({capability // 10}.{capability % 10})"
    plans = [fetch for path in sorted(FOLDER.glob("*.json")) for fetch in load(path)]
    small = [fetch for fetch in plans if fetch.bytes_moved(4) < 8 * MIB]
    check_all(gpu, options.random, small if options.emulate else plans)
    if options.emulate:
        check_large(gpu, columns=4001)
        return
    if gpu.free_bytes() >= 12 * GIB:
        check_large(gpu)
    timings = []
    for case in timed_cases(plans, options.mib):
        gpu.release()
        timings.append(time_case(gpu, case, options.runs))
    print_table(timings, device)
    if options.json is not None:
        save_figures(timings, device, options.json)


if __name__ == "__main__":
    main()
