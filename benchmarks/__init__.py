"""The demo (`make demo`) and the measurements; `make bench` lists them."""

import contextlib

with contextlib.suppress(ImportError):  # benchmarks of the GPU kernels run without MXNet
    import tofu  # noqa: F401  makes MXNet importable, before any of the benchmarks imports it
