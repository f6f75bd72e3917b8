"""The demo, which `make demo` runs, and the benchmarks, which `make bench` lists."""

import contextlib

with contextlib.suppress(ImportError):  # benchmarks of the GPU kernels run without MXNet
    import tofu  # noqa: F401  makes MXNet importable, before any of the benchmarks imports it
