"""Reduction of the batch for a verification that would not fit into the free memory. All else in the model stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import ShapeError
from tofu.formatting import format_bytes
from tofu.host.host_memory import read_free_bytes
from tofu.mxnet.frontend.read_symbol import read_graph, read_training
from tofu.mxnet.memory.account import account_one_device
from tofu.mxnet.memory.optimizer_states import OptimizerStates

Shapes = Mapping[str, tuple[int, ...]]
COPIES = 5
"""Memory of a verification, in multiples of one device's memory in float32.

The numbers are float64, and exist whole, as shards, and in some copies.
"""


def shrink_batch(
    symbol: Any, shapes: Shapes, values: Mapping[str, Any], contexts: Sequence[Any]
) -> tuple[dict[str, tuple[int, ...]], dict[str, Any], list[str]]:
    """Return shapes and values with a batch that fits into memory, halved as often as needed, and notes for the user.

    The batch is the first dimension of every input whose first extent equals the first input's. Raises ShapeError if
    even one example is too large.
    """
    available = _measure_available(contexts)
    batch = next(iter(shapes.values()), (1,))[0]
    sharing = {name for name, shape in shapes.items() if shape and shape[0] == batch}
    size = batch
    while (needed := _measure_needed(symbol, fitting := _resize(shapes, sharing, size))) > available:
        if size == 1:
            raise ShapeError(
                f"Even a batch of 1 needs {format_bytes(needed)} for the comparison, and {format_bytes(available)} are free. Use smaller "
                f"shapes (now {', '.join(f'{name}: {shape}' for name, shape in shapes.items())}), or a model with narrower layers."
            )
        size //= 2
    if size == batch:
        return fitting, dict(values), []
    cut = {name: value[:size] if name in sharing or _leads(value, batch) else value for name, value in values.items()}
    note = f"scaled down: a batch of {size} instead of {batch}, since {format_bytes(available)} are free"
    return fitting, cut, [note]


def _resize(shapes: Shapes, sharing: set[str], size: int) -> dict[str, tuple[int, ...]]:
    return {name: (size, *shape[1:]) if name in sharing else shape for name, shape in shapes.items()}


def _leads(value: Any, batch: int) -> bool:
    return bool(np.ndim(value)) and len(value) == batch


def _measure_needed(symbol: Any, shapes: Shapes) -> int:
    inputs, learned = read_training(symbol, shapes)
    source = read_graph(symbol, inputs, None, learned, learned)
    return COPIES * account_one_device(source, OptimizerStates(None, {})).planned_bytes


def _measure_available(contexts: Sequence[Any]) -> float:
    gpus = [context for context in contexts if context.device_type == "gpu"]
    if gpus:
        return int(min(mx.context.gpu_memory_info(context.device_id)[0] for context in gpus))
    return read_free_bytes()
