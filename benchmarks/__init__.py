"""What is measured and shown: `make demo`, and `make bench` for a list of everything that has numbers."""

import contextlib

with contextlib.suppress(ImportError):  # benchmarks of the GPU kernels run without MXNet
    import tofu  # noqa: F401  makes MXNet importable, before any of the benchmarks imports it
