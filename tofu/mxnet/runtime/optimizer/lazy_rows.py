"""Support for lazy optimizers, which update only the rows of a weight whose gradients are not zero.

Other rows would change, too, because of momentum and weight decay. So they get their old values back after the update.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt

from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor

LAZY_FOR_SPARSE = (mx.optimizer.AdaGrad, mx.optimizer.Ftrl)
"""MXNet's optimizers that are lazy if weight and gradient are sparse. Most others are lazy if `lazy_update` is set."""


def list_read_gradients(
    optimizer: Any, index: Any, gradient: ShardedTensor, has_sparse_weight: bool
) -> list[ShardedTensor]:
    """Return the gradients of a weight. A lazy optimizer only updates rows with non-zero gradients.

    Return [] if the optimizer updates all rows.
    """
    if isinstance(optimizer, LAZY_FOR_SPARSE):
        is_lazy = has_sparse_weight
    elif isinstance(optimizer, mx.optimizer.NAG):
        is_lazy = optimizer.momentum == 0.0
    elif isinstance(optimizer, mx.optimizer.LBSGD):
        accumulated = optimizer.cumgrads.get(index, {}).get("cum_grad")
        return [gradient, accumulated.tensor] if isinstance(accumulated, ShardedArray) else [gradient]
    else:
        is_lazy = bool(getattr(optimizer, "lazy_update", False))
    return [gradient] if is_lazy else []


@contextmanager
def keeping_rows(
    gradients_by_weight: Sequence[Sequence[ShardedTensor]], arrays_by_weight: Sequence[Sequence[Any]]
) -> Iterator[None]:
    """After a `with` block, restore each row of weights and states whose gradient row is zero."""
    with ExitStack() as stack:
        for gradients, arrays in zip(gradients_by_weight, arrays_by_weight, strict=True):
            if not gradients:
                continue
            is_updated = np.logical_or.reduce([find_rows(gradient) for gradient in gradients])
            for array in arrays:
                if isinstance(array, ShardedArray) and array.tensor.shape == gradients[0].shape:
                    stack.enter_context(_restoring_rows(array.tensor, is_updated))
        yield


def find_rows(gradient: ShardedTensor) -> npt.NDArray[np.bool_]:
    """Return a bool for each row: True if the row has a non-zero element."""
    is_nonzero = np.zeros(gradient.shape[0], bool)
    for worker in gradient.owners:
        (begin, end), shard = gradient.regions[worker][0], gradient.arrays[worker]
        is_nonzero[begin:end] |= (shard != 0).reshape((end - begin, -1)).max(axis=1).asnumpy() > 0
    return is_nonzero


@contextmanager
def _restoring_rows(tensor: ShardedTensor, is_updated: npt.NDArray[np.bool_]) -> Iterator[None]:
    old_shards = [shard.copy() for shard in tensor.arrays]
    yield
    for region, shard, old_shard in zip(tensor.regions, tensor.arrays, old_shards, strict=True):
        is_updated_here = mx.nd.array(is_updated[slice(*region[0])], ctx=shard.context, dtype="float32")
        mx.nd.where(is_updated_here, shard, old_shard, out=shard)
