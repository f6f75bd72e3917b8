"""Any MXNet optimizer on shards: each worker updates the shards that it owns, with states of the shards' shapes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu.errors import TofuError
from tofu.runtime.sharded_executor import ShardedExecutor


class ShardOptimizer:
    """One MXNet optimizer and an updater for each worker.

    Parameters
    ----------
    optimizer
        An `mx.optimizer.Optimizer`, or the name of one with its `parameters`.
    names
        The trained parameters, in the order of MXNet's indices.
    workers
        Their number.
    rescale_grad
        What gradients are multiplied by where `parameters` do not say; MXNet's Module takes 1 / batch size.
    symbol
        The model, for the multipliers of learning rate and weight decay in its attributes.
    """

    def __init__(
        self,
        optimizer: Any,
        parameters: Mapping[str, Any],
        names: Sequence[str],
        workers: int,
        rescale_grad: float,
        symbol: Any,
    ) -> None:
        self.names = tuple(names)
        indices = dict(enumerate(self.names))
        if isinstance(optimizer, str):
            parameters = {"rescale_grad": rescale_grad, **parameters}
            self.optimizer = mx.optimizer.create(optimizer, sym=symbol, param_idx2name=indices, **parameters)
        elif isinstance(optimizer, mx.optimizer.Optimizer):
            self.optimizer = optimizer
            if optimizer.rescale_grad != rescale_grad:
                warnings.warn(
                    f"The optimizer's rescale_grad is {optimizer.rescale_grad}, 1 / batch size is {rescale_grad}. Is this intended?",
                    stacklevel=3,
                )
            if not optimizer.idx2name:
                optimizer.idx2name = indices
        else:
            raise TofuError(
                f"The optimizer must be a name or an mx.optimizer.Optimizer, not {type(optimizer).__name__}."
            )
        self.updaters = tuple(mx.optimizer.get_updater(self.optimizer) for _ in range(workers))

    def update(self, executor: ShardedExecutor) -> None:
        """One update of every trained parameter, from the gradients of the last backward."""
        for index, name in enumerate(self.names):
            weight, gradient = executor.variables[name], executor.gradient(name)
            for updater, gradient_shard, weight_shard in zip(
                self.updaters, gradient.arrays, weight.arrays, strict=True
            ):
                updater(index, gradient_shard, weight_shard)
