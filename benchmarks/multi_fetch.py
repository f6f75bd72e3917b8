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
import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import native
from benchmarks.fetch_geometry import FOLDER, Fetch, Piece, bordered, load, random_fetch, side_by_side, stacked, summed

MIB = 1 << 20
AHEAD_BYTES = 512 * MIB
GIB = 1 << 30
SPEEDUP_GOAL = 2.0  # over CuPy
TYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int64", "bool")


class GpuError(RuntimeError):
    """What csrc/cuda, the driver or NVRTC refused."""


class Library:
    """csrc/cuda, loaded; its errors are exceptions."""

    def __init__(self) -> None:
        self.functions = ctypes.CDLL(str(native.build_cuda_library()))
        self.functions.TofuCudaError.restype = ctypes.c_char_p
        self.functions.TofuFetchFree.argtypes = [ctypes.c_void_p]

    def call(self, name: str, *arguments: Any) -> None:
        """A function that returns 0, or -1 after which TofuCudaError says why."""
        if getattr(self.functions, name)(*arguments) != 0:
            raise GpuError(self.functions.TofuCudaError().decode())

    def describe(self) -> tuple[str, int]:
        """Name and compute capability (9.0 as 90) of the first GPU."""
        name, capability = ctypes.create_string_buffer(128), ctypes.c_int()
        self.call("TofuCudaDevice", 0, name, ctypes.byref(capability))
        return name.value.decode(), capability.value


class NativeFetch:
    """A fetch as the MXNet operator holds it: prepared once, launched many times."""

    def __init__(self, library: Library, fetch: Fetch, dtype: str, gpus: int) -> None:
        self.library, self.fetch, self.handle = library, fetch, ctypes.c_void_p()
        numbers = fetch.encode(gpus)
        pointer = numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        size = np.dtype(dtype).itemsize
        arguments = (pointer, ctypes.c_size_t(numbers.size), dtype.encode(), size, ctypes.byref(self.handle))
        library.call("TofuFetchCreate", *arguments)

    def launch(self, output: int, inputs: Sequence[int], stream: int = 0, adds: bool = False) -> None:
        """Issue it; addresses are integers."""
        addresses = (ctypes.c_void_p * max(1, len(inputs)))(*inputs)
        self.library.call(
            "TofuFetchLaunch",
            self.handle,
            ctypes.c_void_p(output),
            addresses,
            ctypes.c_double(self.fetch.fill),
            int(adds),
            0,
            ctypes.c_void_p(stream),
        )

    def __del__(self) -> None:
        if self.handle:
            self.library.functions.TofuFetchFree(self.handle)


class EmulatedGpu:
    """Stands for CuPy: arrays of NumPy, kernels on the CPU."""

    gpus = 1
    cupy = np

    def __init__(self) -> None:
        emulated = str(native.build_emulated_gpu())
        os.environ.update(TOFU_CUDA_DRIVER=emulated, TOFU_NVRTC=emulated)
        self.library = Library()

    def place(self, array: np.ndarray, gpu: int) -> np.ndarray:
        return array.copy()

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def fetch_back(self, array: Any) -> np.ndarray:
        return np.asarray(array)


class CupyGpus:
    """The GPUs that CuPy sees."""

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError as error:
            reason = str(error).strip().splitlines()[-1]
            install = 'pip install "cupy-cuda12x[ctk]"'
            sys.exit(f"This benchmark needs CuPy ({reason}): {install}. Without a GPU: --emulate.")
        try:
            self.gpus = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            sys.exit(f"CuPy finds no GPU ({error}). This benchmark needs one; without it: --emulate.")
        try:
            cupy.cuda.nvrtc.getVersion()  # loads the NVRTC that CuPy uses; csrc/cuda takes the one that is loaded
        except (ImportError, RuntimeError) as error:
            sys.exit(f'CuPy finds no NVRTC ({str(error).splitlines()[0]}): pip install "cupy-cuda12x[ctk]".')
        self.cupy = cupy
        cupy.cuda.Device(0).use()
        self.library = Library()
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def place(self, array: np.ndarray, gpu: int) -> Any:
        with self.cupy.cuda.Device(gpu):
            placed = self.cupy.asarray(array)
            self.cupy.cuda.Device(gpu).synchronize()
        return placed

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def fetch_back(self, array: Any) -> np.ndarray:
        self.cupy.cuda.Device(0).synchronize()
        return np.asarray(array.get())

    def seconds(self, action: Callable[[], object], runs: int) -> float:
        """Median time of `action` on the stream, by events; the first runs warm up.

        A long copy comes before it: meanwhile the host issues the action, whose time is then the GPU's alone (of CuPy's many launches as
        far as the host is ahead of them), and the caches hold nothing of the run before.
        """
        times = []
        with self.stream:
            ahead = [self.cupy.empty(AHEAD_BYTES, "uint8") for _ in range(2)]
            for run in range(runs + 5):
                begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
                for _ in range(4):
                    self.copy(ahead[0], ahead[1], AHEAD_BYTES)
                begin.record(self.stream)
                action()
                end.record(self.stream)
                end.synchronize()
                if run >= 5:
                    times.append(self.cupy.cuda.get_elapsed_time(begin, end) / 1e3)
        return median(times)

    def copy(self, target: Any, source: Any, count: int) -> None:
        """A device-to-device copy of `count` bytes."""
        runtime = self.cupy.cuda.runtime
        addresses = self.address(target), self.address(source)
        runtime.memcpyAsync(*addresses, count, runtime.memcpyDeviceToDevice, self.stream.ptr)

    def release(self) -> None:
        """Give back what CuPy keeps of arrays that are gone."""
        self.cupy.get_default_memory_pool().free_all_blocks()

    def free_bytes(self) -> int:
        """Free memory of the first GPU."""
        return int(self.cupy.cuda.runtime.memGetInfo()[0])


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
    save_picture(timings, device, options.save)


if __name__ == "__main__":
    main()
