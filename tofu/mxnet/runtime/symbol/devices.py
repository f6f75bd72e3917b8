"""Choose the devices on which the workers run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from tofu.errors import DeviceError
from tofu.validation import show_with_type


def resolve_contexts(workers: int, contexts: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """Return an MXNet context (a device) for each worker.

    The default is gpu(0), gpu(1), ..., or cpu(0), cpu(1), ... without GPUs. Raise DeviceError if a device is missing or
    repeated, or if their number is wrong.
    """
    if workers < 1:
        raise DeviceError(f"ngpus is {workers}; a model needs at least 1 worker. Use ngpus=1 for the model as it is.")
    gpus = mx.context.num_gpus()
    if contexts is None:
        if gpus == 0:
            return tuple(mx.cpu(i) for i in range(workers))
        if gpus < workers:
            raise DeviceError(
                f"{workers} workers were requested, but MXNet sees {gpus} GPU{'s' if gpus > 1 else ''}. Use ngpus={gpus}, "
                f"or name the workers' devices, for example contexts=[mx.cpu(i) for i in range({workers})]."
            )
        return tuple(mx.gpu(i) for i in range(workers))
    contexts = tuple(contexts)
    if len(contexts) != workers:
        raise DeviceError(
            f"contexts= has {len(contexts)} contexts for {workers} workers; it needs one for each, in order."
        )
    repeated = sorted({str(context) for context in contexts if contexts.count(context) > 1})
    if repeated:
        raise DeviceError(f"Each worker needs another device, but {', '.join(repeated)} is listed more than once.")
    _check_gpus_exist(contexts)
    return contexts


def check_context(context: Any) -> None:
    """Raise DeviceError if the context's device does not exist. None stands for MXNet's current context."""
    if context is not None and not isinstance(context, mx.Context):
        raise DeviceError(f"ctx takes an MXNet context, not {show_with_type(context)}. Write mx.cpu() or mx.gpu(0).")
    _check_gpus_exist([context] if context is not None else [])


def _check_gpus_exist(contexts: Sequence[Any]) -> None:
    gpus = mx.context.num_gpus()
    absent = [str(context) for context in contexts if context.device_type == "gpu" and context.device_id >= gpus]
    if not absent:
        return
    problem = f"{', '.join(absent)} {'do' if absent[1:] else 'does'} not exist"
    if mx.runtime.Features().is_enabled("CUDA"):
        possible = f"devices from gpu(0) to gpu({gpus - 1}), or cpu(i)" if gpus else "cpu(0), cpu(1), ..."
        raise DeviceError(f"MXNet sees {gpus} GPUs, so {problem}. Name {possible}.")
    raise DeviceError(
        f"This MXNet is built without CUDA and sees no GPU, so {problem}. Name cpu(0), cpu(1), ..., or install "
        "MXNet for CUDA (docs/limits.md, GPUs)."
    )
