"""GPUs for the fetch kernel: real GPUs through CuPy, or one GPU emulated on the CPU."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fetch_geometry import Fetch
from tests.cuda import native

AHEAD_BYTES = 512 << 20


class GpuError(RuntimeError):
    """Error of csrc/cuda, the driver or NVRTC."""


class Library:
    """The library of csrc/cuda, which raises its errors as exceptions."""

    def __init__(self) -> None:
        self.functions = ctypes.CDLL(str(native.build_cuda_library()))
        self.functions.TofuCudaError.restype = ctypes.c_char_p
        self.functions.TofuFetchFree.argtypes = [ctypes.c_void_p]

    def call(self, name: str, *arguments: Any) -> None:
        if getattr(self.functions, name)(*arguments) != 0:
            raise GpuError(self.functions.TofuCudaError().decode())

    def describe(self) -> tuple[str, int]:
        name, capability = ctypes.create_string_buffer(128), ctypes.c_int()
        self.call("TofuCudaDevice", 0, name, ctypes.byref(capability))
        return name.value.decode(), capability.value


class NativeFetch:
    """A fetch as in the MXNet operator: prepared once, launched many times."""

    def __init__(self, library: Library, fetch: Fetch, dtype: str, gpus: int) -> None:
        self.library, self.fetch, self.handle = library, fetch, ctypes.c_void_p()
        numbers = fetch.encode(gpus)
        pointer = numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        size = np.dtype(dtype).itemsize
        arguments = (pointer, ctypes.c_size_t(numbers.size), dtype.encode(), size, ctypes.byref(self.handle))
        library.call("TofuFetchCreate", *arguments)

    def launch(self, output: int, inputs: Sequence[int], stream: int = 0, adds: bool = False) -> None:
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
    """Stand-in for CuPy with arrays of NumPy and kernels on the CPU."""

    gpus = 1
    cupy = np

    def __init__(self) -> None:
        emulated = str(native.build_emulated_gpu())
        os.environ.update(TOFU_CUDA_DRIVER=emulated, TOFU_NVRTC=emulated)
        self.library = Library()

    def place(self, array: NDArray[Any], gpu: int) -> NDArray[Any]:
        return array.copy()

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def fetch_back(self, array: Any) -> NDArray[Any]:
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

    def place(self, array: NDArray[Any], gpu: int) -> Any:
        with self.cupy.cuda.Device(gpu):
            placed = self.cupy.asarray(array)
            self.cupy.cuda.Device(gpu).synchronize()
        return placed

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def fetch_back(self, array: Any) -> NDArray[Any]:
        self.cupy.cuda.Device(0).synchronize()
        return np.asarray(array.get())

    def seconds(self, action: Callable[[], object], runs: int) -> float:
        """Return the median time of `action` on the stream, after warm-up runs.

        Before each run, a long copy clears the caches. Meanwhile, the host issues the action.
        """
        times: list[float] = []
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
        runtime = self.cupy.cuda.runtime
        addresses = self.address(target), self.address(source)
        runtime.memcpyAsync(*addresses, count, runtime.memcpyDeviceToDevice, self.stream.ptr)

    def release(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()

    def free_bytes(self) -> int:
        return int(self.cupy.cuda.runtime.memGetInfo()[0])
