"""Use a smaller batch if a model does not fit into the free memory while it is verified."""

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
"""Memory of a verification, in multiples of the model's memory on one device in float32.

A verification stores each array in float64, and several times: whole, as shards, and as copies.
"""


def shrink_batch(
    symbol: Any, shapes: Shapes, values: Mapping[str, Any], contexts: Sequence[Any]
) -> tuple[dict[str, tuple[int, ...]], dict[str, Any], list[str]]:
    """Halve the batch until the model can be verified in the free memory.

    Return the new shapes, the new values, and notes for the user. Raise ShapeError if even a batch of 1 is too large.
    """
    free_bytes = _read_free_bytes(contexts)
    batch = next(iter(shapes.values()), (1,))[0]
    batch_inputs = {name for name, shape in shapes.items() if shape and shape[0] == batch}
    size = batch
    while (needed := _predict_bytes(symbol, new_shapes := _resize(shapes, batch_inputs, size))) > free_bytes:
        if size == 1:
            raise ShapeError(
                f"Even a batch of 1 needs {format_bytes(needed)} for the comparison, and {format_bytes(free_bytes)} are free. Use smaller "
                f"shapes (now {', '.join(f'{name}: {shape}' for name, shape in shapes.items())}), or a model with narrower layers."
            )
        size //= 2
    if size == batch:
        return new_shapes, dict(values), []
    new_values = {
        name: value[:size] if name in batch_inputs or (np.ndim(value) and len(value) == batch) else value
        for name, value in values.items()
    }
    note = f"scaled down: a batch of {size} instead of {batch}, since {format_bytes(free_bytes)} are free"
    return new_shapes, new_values, [note]


def _resize(shapes: Shapes, batch_inputs: set[str], size: int) -> dict[str, tuple[int, ...]]:
    return {name: (size, *shape[1:]) if name in batch_inputs else shape for name, shape in shapes.items()}


def _predict_bytes(symbol: Any, shapes: Shapes) -> int:
    inputs, trained = read_training(symbol, shapes)
    source = read_graph(symbol, inputs, None, trained, trained)
    return COPIES * account_one_device(source, OptimizerStates(None, {})).planned_bytes


def _read_free_bytes(contexts: Sequence[Any]) -> float:
    gpus = [context for context in contexts if context.device_type == "gpu"]
    if gpus:
        return int(min(mx.context.gpu_memory_info(context.device_id)[0] for context in gpus))
    return read_free_bytes()
