"""The fetch kernel on a GPU: correct on random geometries and on those of real plans, and how fast.

    python -m benchmarks.multi_fetch                 needs a GPU, CuPy, matplotlib (pip install "cupy-cuda12x[ctk]" matplotlib)
                                                     and a C++ compiler (g++, or pip install ziglang); not MXNet
    python -m benchmarks.multi_fetch --emulate       the same checks on the CPU, thread by thread, and no timing

What runs is what the MXNet operator runs: csrc/cuda with its kernel's source, its tables and its launcher, over arrays of CuPy. Results
are compared with NumPy's, and those of the timed cases with CuPy's. Bandwidth is bytes that have to be read and written, over the
median time between two events; the share is that over the bandwidth of a device-to-device copy of as many bytes. The speed-up is over
what separate operators do: slices are copied, added up, and put together with CuPy. A table is printed, and a picture is saved.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fetch_geometry import FOLDER, Fetch, Piece, bordered, load, random_fetch, side_by_side, stacked, summed
from benchmarks.fetch_gpus import CupyGpus, EmulatedGpu, GpuError, NativeFetch

MIB = 1 << 20
GIB = 1 << 30
SPEEDUP_GOAL = 2.0  # over CuPy
TYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int64", "bool")


def random_arrays(fetch: Fetch, dtype: str, seed: int) -> list[np.ndarray]:
    """Small whole numbers, whose sums are exact in every type and every order."""
    rng = np.random.RandomState(seed)
    return [rng.randint(0, 2 if dtype == "bool" else 15, shape).astype(dtype) for shape in fetch.inputs]


def check(gpu: Any, fetch: Fetch, dtype: str, seed: int) -> None:
    """Written, then added to that: both equal to NumPy's."""
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
                f"{fetch.name}, {dtype}, adds={adds}: {np.sum(result != wanted)} cells differ from NumPy's"
            )


def check_all(gpu: Any, random: int, plans: Sequence[Fetch]) -> None:
    """Random geometries in all types, and those of real plans."""
    for seed in range(random):
        check(gpu, random_fetch(seed), TYPES[seed % len(TYPES)], seed)
    for fetch in plans:
        check(gpu, fetch, "float32", 0)
    print(
        f"{random} random geometries and {len(plans)} of real plans: equal to NumPy, written and added; inputs on {gpu.gpus} GPU(s)."
    )


def check_large(gpu: Any, columns: int = GIB + 1) -> None:
    """Three rows of single bytes, none of which lies at a multiple of 2: more items than a number of 32 bits with a sign counts."""
    piece = Piece((0, 0), (3, columns), ((0, (0, 1)),))
    fetch = Fetch("single bytes", (3, columns), ((3, columns + 1),), (piece,))
    source = gpu.cupy.empty((3, columns + 1), "uint8")
    for row in range(3):  # one by one: CuPy counts what is less than 2^31 in every version
        source[row] = gpu.cupy.tile(gpu.cupy.arange(row, 251 - row, dtype="uint8"), columns // 245 + 2)[: columns + 1]
    output = gpu.cupy.zeros((3, columns), "uint8")
    NativeFetch(gpu.library, fetch, "uint8", 1).launch(gpu.address(output), [gpu.address(source)])
    if not all(bool((output[row] == source[row, 1:]).all()) for row in range(3)):
        raise AssertionError(f"{output.size:,} single bytes: not all are those of the source")
    print(f"{output.size:,} single bytes: equal to their source.")


@dataclass(frozen=True)
class Case:
    """What is timed; `goal` is the share of a copy's bandwidth that is aimed at."""

    fetch: Fetch
    goal: float | None = None


def timed_cases(plans: Sequence[Fetch], mib: int) -> list[Case]:
    """Regions of `mib` MiB of float32 and of 64 MiB, and real plans."""
    cells = mib * MIB // 4

    def rows(name: str, row_bytes: int, goal: float) -> Case:
        columns = row_bytes // 4
        return Case(side_by_side(name, 4, cells // 4 // columns, columns, padding=columns), goal)

    return [
        Case(stacked("contiguous, 64 MiB", 8, 2 * MIB), 0.9),
        Case(stacked(f"contiguous, {mib} MiB", 8, cells // 8), 0.9),
        rows("rows of 4 KiB", 4096, 0.85),
        rows("rows of 512 B", 512, 0.7),
        rows("rows of 64 B", 64, 0.4),
        Case(summed("sum of 8", 8, cells // 4), 0.85),
        Case(side_by_side("gather of columns", 16, cells // 16, 1, padding=3)),
        Case(bordered("images of 56 x 56 with a border", cells // 56**2, 56)),
        *(Case(fetch) for fetch in plans),
    ]


@dataclass(frozen=True)
class Timing:
    """One row of the table."""

    case: Case
    bytes_moved: int
    seconds: float
    copy_seconds: float  # of a device-to-device copy that moves as many bytes
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


def time_case(gpu: CupyGpus, case: Case, runs: int) -> Timing:
    """Seconds of the kernel, of a copy and of CuPy, all on the first GPU; the results are equal, or it is an error."""
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
    """Small whole numbers in float32, others in each input."""
    cells = int(np.prod(shape))
    return ((library.arange(cells, dtype="int32") + first) % 15).astype("float32").reshape(shape)


def print_table(timings: Sequence[Timing], device: str) -> None:
    """Bandwidths, shares of a copy's, speed-ups, and how many of the goals are reached."""
    print(f"\n{device}, float32\n")
    print(f"{'region':44} {'MiB':>7} {'GB/s':>7} {'copy':>7} {'share':>6} {'goal':>5} {'over CuPy':>9} {'goal':>5}")
    for t in timings:
        goal = "" if t.case.goal is None else f"{t.case.goal:.2f}"
        copy = t.bytes_moved / t.copy_seconds / 1e9
        print(
            f"{t.case.fetch.name[:44]:44} {t.bytes_moved / MIB:7.0f} {t.bandwidth / 1e9:7.0f} {copy:7.0f} "
            f"{t.share:6.2f} {goal:>5} {t.speedup:8.1f}x {SPEEDUP_GOAL:4.1f}x"
        )
    with_goal = [t for t in timings if t.case.goal is not None]
    shares = sum(t.share >= t.case.goal for t in with_goal)
    speedups = sum(t.speedup >= SPEEDUP_GOAL for t in timings)
    print(f"\nGoals reached: {shares} of {len(with_goal)} shares, {speedups} of {len(timings)} speed-ups.")


def save_figures(timings: Sequence[Timing], device: str, path: Path) -> None:
    """The table as JSON."""
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


def save_picture(timings: Sequence[Timing], device: str, path: Path) -> None:
    """Bandwidth over bytes, under the roof that copies of as many bytes reach."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5.5), constrained_layout=True)
    roof = sorted((t.bytes_moved / MIB, t.bytes_moved / t.copy_seconds / 1e9) for t in timings)
    axes.plot(*zip(*roof, strict=True), color="black", label="device-to-device copy")
    for timing in timings:
        x, y = timing.bytes_moved / MIB, timing.bandwidth / 1e9
        axes.plot(x, y, "o", color="tab:blue" if timing.case.goal else "tab:gray")
        axes.annotate(timing.case.fetch.name[:32], (x, y), fontsize=7, xytext=(4, -8), textcoords="offset points")
        if timing.case.goal:
            axes.plot(x, timing.case.goal * timing.bytes_moved / timing.copy_seconds / 1e9, "_", color="tab:red", ms=14)
    axes.set(
        xscale="log", yscale="log", xlabel="bytes read and written, MiB", ylabel="GB/s", title=f"Fetches on {device}"
    )
    axes.legend()
    figure.savefig(path, dpi=150)
    print(f"\nThe picture is in {path}; red bars are the goals.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Check, time, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multi_fetch", description=__doc__.split("\n")[0])
    parser.add_argument("--emulate", action="store_true", help="run on the CPU, thread by thread: checks only")
    parser.add_argument("--random", type=int, default=200, help="number of random geometries (200)")
    parser.add_argument("--mib", type=int, default=512, help="size of the regions that are timed (512)")
    parser.add_argument("--runs", type=int, default=30, help="how often each is timed, after 5 runs that are not (30)")
    parser.add_argument("--json", type=Path, help="where the figures go as JSON")
    parser.add_argument("--save", type=Path, default=Path("multi_fetch.png"), help="where the picture goes")
    options = parser.parse_args(arguments)
    if not options.emulate and importlib.util.find_spec("matplotlib") is None:
        sys.exit("This benchmark draws a picture with matplotlib, which is not installed: pip install matplotlib.")
    try:
        run(options)
    except GpuError as error:
        sys.exit(f"This benchmark cannot use the GPU: {error}.")


def run(options: argparse.Namespace) -> None:
    """What was asked for, in its order: what is wrong is not timed."""
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
    save_picture(timings, device, options.save)


if __name__ == "__main__":
    main()
