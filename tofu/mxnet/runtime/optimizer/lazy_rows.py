"""Lazy optimizers, which leave the rows of a weight unchanged that a sparse gradient does not contain.

Workers compute sparse gradients as dense arrays and update their shards by dense operators. These operators also decay
momentum and weights in rows whose gradient is zero, so such rows are restored after the update.
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
"""Optimizers of MXNet that are lazy if weight and gradient are sparse. Others are lazy if their `lazy_update` is set."""


def list_read_gradients(
    optimizer: Any, index: Any, gradient: ShardedTensor, has_sparse_weight: bool
) -> list[ShardedTensor]:
    """Return the sparse gradients that decide which rows an update changes, or none if the optimizer is not lazy.

    NAG without momentum and LBSGD use operators that are lazy by default. LBSGD also reads its accumulated gradient.
    """
    if isinstance(optimizer, LAZY_FOR_SPARSE):
        is_lazy = has_sparse_weight
    elif isinstance(optimizer, mx.optimizer.NAG):
        is_lazy = optimizer.momentum == 0.0
    elif isinstance(optimizer, mx.optimizer.LBSGD):
        added = optimizer.cumgrads.get(index, {}).get("cum_grad")
        return [gradient, added.tensor] if isinstance(added, ShardedArray) else [gradient]
    else:
        is_lazy = bool(getattr(optimizer, "lazy_update", False))
    return [gradient] if is_lazy else []


@contextmanager
def keeping_rows(gradients: Sequence[Sequence[ShardedTensor]], updated: Sequence[Sequence[Any]]) -> Iterator[None]:
    """Restore, at the end of the context, the rows of each weight and of its states in which all its gradients are zero."""
    with ExitStack() as stack:
        for read, arrays in zip(gradients, updated, strict=True):
            if not read:
                continue
            touched = np.logical_or.reduce([find_rows(gradient) for gradient in read])
            for array in arrays:
                if isinstance(array, ShardedArray) and array.tensor.shape == read[0].shape:
                    stack.enter_context(_keeping(array.tensor, touched))
        yield


def find_rows(gradient: ShardedTensor) -> npt.NDArray[np.bool_]:
    """Return which rows of a gradient have a non-zero element."""
    touched = np.zeros(gradient.shape[0], bool)
    for worker in gradient.owners:
        (begin, end), array = gradient.regions[worker][0], gradient.arrays[worker]
        touched[begin:end] |= (array != 0).reshape((end - begin, -1)).max(axis=1).asnumpy() > 0
    return touched


@contextmanager
def _keeping(tensor: ShardedTensor, touched: npt.NDArray[np.bool_]) -> Iterator[None]:
    before = [array.copy() for array in tensor.arrays]
    yield
    for region, array, old in zip(tensor.regions, tensor.arrays, before, strict=True):
        rows = mx.nd.array(touched[slice(*region[0])], ctx=array.context, dtype="float32")
        mx.nd.where(rows, array, old, out=array)
