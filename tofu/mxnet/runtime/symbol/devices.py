"""Where the workers run: contexts given by the user or found, checked before anything is planned on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from tofu.errors import DeviceError
from tofu.validation import show_with_type


def resolve_contexts(workers: int, contexts: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """One context per worker, in the order of their digits.

    Left out, the contexts are gpu(0..k-1) where MXNet sees that many GPUs and cpu(0..k-1) where it sees none.
    Raises DeviceError for a count that does not fit, for a device that does not exist, and for one that is listed twice.
    """
    if workers < 1:
        raise DeviceError(f"ngpus is {workers}; a model needs at least 1 worker. Use ngpus=1 for the model as it is.")
    gpus = mx.context.num_gpus()
    if contexts is None:
        if gpus == 0:
            return tuple(mx.cpu(i) for i in range(workers))
        if gpus < workers:
            raise DeviceError(
                f"{workers} workers were asked for, but MXNet sees {gpus} GPU{'s' if gpus > 1 else ''}. Use ngpus={gpus}, "
                f"or say where the workers run, for example contexts=[mx.cpu(i) for i in range({workers})]."
            )
        return tuple(mx.gpu(i) for i in range(workers))
    contexts = tuple(mx.Context(context) if not isinstance(context, mx.Context) else context for context in contexts)
    if len(contexts) != workers:
        raise DeviceError(
            f"{len(contexts)} contexts were given for {workers} workers: contexts= needs one for each, in their order."
        )
    repeated = sorted({str(context) for context in contexts if contexts.count(context) > 1})
    if repeated:
        raise DeviceError(f"Each worker needs a device of its own, but {', '.join(repeated)} is listed more than once.")
    check_present(contexts)
    return contexts


def check_context(context: Any) -> None:
    """Raise DeviceError for what is no context of a device that there is; None is MXNet's current one."""
    if context is not None and not isinstance(context, mx.Context):
        raise DeviceError(f"ctx takes an MXNet context, not {show_with_type(context)}. Write mx.cpu() or mx.gpu(0).")
    check_present([context] if context is not None else [])


def check_present(contexts: Sequence[Any]) -> None:
    """Raise DeviceError for GPUs that MXNet does not see."""
    gpus = mx.context.num_gpus()
    absent = [str(context) for context in contexts if context.device_type == "gpu" and context.device_id >= gpus]
    if not absent:
        return
    said = f"{', '.join(absent)} {'do' if absent[1:] else 'does'} not exist"
    if mx.runtime.Features().is_enabled("CUDA"):
        known = f"devices from gpu(0) to gpu({gpus - 1}), or cpu(i)" if gpus else "cpu(0), cpu(1), ..."
        raise DeviceError(f"MXNet sees {gpus} GPUs, so {said}. Name {known}.")
    raise DeviceError(
        f"This MXNet is built without CUDA and sees no GPU, so {said}. Name cpu(0), cpu(1), ..., or install "
        "MXNet for CUDA (docs/limits.md, GPUs)."
    )
