"""Let MXNet's Updaters update parameters that are split over workers.

This changes MXNet's own class, because an Updater may exist before its model is partitioned.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import mxnet as mx

from tofu.host.interrupts import uninterrupted
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.cluster.horovod import average_gradients, own_optimizer
from tofu.mxnet.runtime.optimizer.optimizer import prepare_states, update_shards, updater_for

_update_whole = mx.optimizer.Updater.__call__


def install_updater() -> None:
    """Change MXNet's Updaters to update parameters that are stored as shards."""
    mx.optimizer.Updater.__call__ = _update_parameters


@wraps(_update_whole)
def _update_parameters(self: Any, index: Any, grad: Any, weight: Any) -> None:
    if not any(
        isinstance(array, ParameterArray) for array in (weight if isinstance(weight, (list, tuple)) else [weight])
    ):
        _update_whole(self, index, grad, weight)
        return
    if not isinstance(index, (list, tuple)):
        index, grad, weight = [index], [grad], [weight]
    weights = [ShardedArray(array.tensor) if isinstance(array, ParameterArray) else array for array in weight]
    gradients = [_place_gradient(*pair) for pair in zip(grad, weight, strict=True)]
    with uninterrupted():
        try:
            average_gradients(self.optimizer, index, gradients)
            updater = updater_for(own_optimizer(self.optimizer))
            updater.states, updater.states_synced = self.states, self.states_synced
            prepare_states(self, index, weights)
            has_sparse_weight = {
                n: False
                for n, array in enumerate(weight)
                if isinstance(array, ParameterArray) and array.has_sparse_gradient
            }
            update_shards(updater, index, gradients, weights, has_sparse_weight)
        finally:
            for array in (*weight, *grad):
                if isinstance(array, ParameterArray):
                    array.note_change()


def _place_gradient(gradient: Any, weight: Any) -> Any:
    if not isinstance(weight, ParameterArray):
        return gradient
    if not isinstance(gradient, ParameterArray):
        tensor = weight.layout.zeros_like()
        tensor.scatter(gradient)
        return ShardedArray(tensor)
    if not gradient.layout.matches(weight.layout):
        gradient.move(weight.layout.zeros_like())
    return ShardedArray(gradient.tensor)
