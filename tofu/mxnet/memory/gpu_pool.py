"""What MXNet's pool of GPU memory takes for an array: it rounds each up (src/storage/pooled_storage_manager.h of MXNet 1.9.1)."""

from __future__ import annotations

import os

PAGE_BYTES, LARGE_BYTES = 4096, 2 << 20
PAGE_VARIABLE, LARGE_VARIABLE = "MXNET_GPU_MEM_POOL_PAGE_SIZE", "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE"


def round_up(count: int) -> int:
    """The bytes of the pool that an array of so many takes: whole pages; above 2 MiB, multiples of that."""
    page = int(os.environ.get(PAGE_VARIABLE, PAGE_BYTES))
    large = int(os.environ.get(LARGE_VARIABLE, LARGE_BYTES))
    rounded = -(-count // page) * page
    return -(-rounded // large) * large if rounded > large else rounded
