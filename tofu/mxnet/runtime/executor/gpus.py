"""Check and prepare GPUs before a model is bound."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.errors import DeviceError
from tofu.formatting import format_bytes
from tofu.mxnet.memory.account import count_rounding
from tofu.mxnet.runtime.executor.failures import MEMORY_REMEDY, AllocationFailureError
from tofu.pipeline import Partition
from tofu.program import worker_group

# The package mxnet-cu112 has machine code for the compute capabilities 5.0, 6.0, 7.0, 8.0 and 8.6. It also runs on
# later ones with the same major version. It has no PTX, so it does not run on other major versions.
MAJOR_VERSIONS = range(5, 9)


def check_gpus(contexts: Sequence[Any]) -> None:
    """Raise DeviceError if MXNet does not support a GPU, or if GPUs and CPUs are mixed."""
    gpus = [context for context in contexts if context.device_type == "gpu"]
    if not gpus:
        return
    if len(gpus) < len(contexts):
        others = ", ".join(str(context) for context in contexts if context not in gpus)
        raise DeviceError(f"Workers run on GPUs or on CPUs, not on both: the contexts include {others} and {gpus[0]}.")
    models = {str(context): _find_model(context) for context in gpus}
    unsupported = [
        f"{context} is {name} ({capability // 10}.{capability % 10})"
        for context, (name, capability) in models.items()
        if capability // 10 not in MAJOR_VERSIONS
    ]
    if unsupported:
        raise DeviceError(
            f"MXNet 1.9.1 has kernels for GPUs of compute capability 5.0 to 8.9, and {'; '.join(unsupported)}. "
            "Use GPUs up to the generations Ampere and Ada, or contexts=[mx.cpu(0), ...]."
        )


def _find_model(context: Any) -> tuple[str, int]:
    try:
        return _mxnet.describe_gpu(context.device_id)
    except RuntimeError as error:
        raise DeviceError(f"{context} cannot be used: {error}.") from error


def check_gpu_memory(partition: Partition, contexts: Sequence[Any]) -> None:
    """Raise OutOfMemoryError if a GPU has too little free memory for its workers."""
    if all(context.device_type != "gpu" for context in contexts):
        return
    needed_bytes: dict[Any, int] = {}
    for count, rounding, context in zip(partition.plan.worker_bytes, count_rounding(partition), contexts, strict=False):
        needed_bytes[context] = needed_bytes.get(context, 0) + count + rounding
    shortages = []
    for context, count in needed_bytes.items():
        with suppress(mx.base.MXNetError):  # a build without CUDA caches nothing
            context.empty_cache()
        free = _mxnet.gpu_free_bytes(context.device_id)
        if free < count:
            shortages.append(f"{context} has {format_bytes(free)} free, and the plan needs {format_bytes(count)} there")
    if shortages:
        raise AllocationFailureError(
            f"There is not enough memory for binding the model: {'; '.join(shortages)}. {MEMORY_REMEDY}"
        )


def prepare_gpus(contexts: Sequence[Any], execution_symbol: Any) -> None:
    """Compile the GPU kernels of a graph, and test whether GPUs can read each other's memory.

    Warn if they cannot. Raise DeviceError if compiling fails or if a GPU reads wrong bytes.
    """
    if any(context.device_type != "gpu" for context in contexts):
        return
    devices = {worker_group(worker): context.device_id for worker, context in enumerate(contexts)}
    try:
        bytes_to_copy = _mxnet.prepare_gpu_kernels(execution_symbol.handle.value, devices)
    except RuntimeError as error:
        raise DeviceError(f"The graph cannot be bound to {', '.join(map(str, contexts))}: {error}.") from error
    if bytes_to_copy:
        pairs = "; ".join(f"gpu({reader}) from gpu({owner}) {count:,} bytes" for reader, owner, count in bytes_to_copy)
        warnings.warn(
            "These GPUs cannot read each other's memory. In each run of the graph the data is copied first, into additional memory: "
            f"{pairs}.",
            RuntimeWarning,
            stacklevel=3,
        )
