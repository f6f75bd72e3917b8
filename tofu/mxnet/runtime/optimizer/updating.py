"""MXNet's Updater on parameters that lie in shards: its optimizer runs once for each, its operators where the shards lie.

Modules and Trainers make their Updaters by themselves, before or after a model is partitioned, so MXNet's own class learns of shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import mxnet as mx

from tofu.host.interrupts import uninterrupted
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, zeros_like
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.cluster.horovod import average_gradients, own_optimizer
from tofu.mxnet.runtime.optimizer.lazy_rows import keeping_rows, list_read_gradients
from tofu.mxnet.runtime.optimizer.optimizer import lay_out, list_arrays, updater_for
from tofu.mxnet.runtime.optimizer.shardwise import on_shards

_update_whole = mx.optimizer.Updater.__call__


def install_updater() -> None:
    """Let MXNet's Updaters update `ParameterArray`s where their shards lie; ordinary arrays are updated as before."""
    mx.optimizer.Updater.__call__ = _update


@wraps(_update_whole)
def _update(self: Any, index: Any, grad: Any, weight: Any) -> None:
    if not any(
        isinstance(array, ParameterArray) for array in (weight if isinstance(weight, (list, tuple)) else [weight])
    ):
        _update_whole(self, index, grad, weight)
        return
    if not isinstance(index, (list, tuple)):
        index, grad, weight = [index], [grad], [weight]
    weights = [ShardedArray(array.tensor) if isinstance(array, ParameterArray) else array for array in weight]
    gradients = [_lay_out_gradient(*pair) for pair in zip(grad, weight, strict=True)]
    with uninterrupted():
        try:
            average_gradients(self.optimizer, index, gradients)
            run = updater_for(own_optimizer(self.optimizer))
            run.states, run.states_synced = self.states, self.states_synced
            with on_shards():
                _lay_out_states(self, index, weights)
            parameters = [n for n, array in enumerate(weight) if isinstance(array, ParameterArray)]
            sparse = [n for n in parameters if weight[n].has_sparse_gradient]
            read = [list_read_gradients(run.optimizer, index[n], gradients[n].tensor, False) for n in sparse]
            updated = [[weights[n], *list_arrays(self.states[index[n]])] for n in sparse]
            with keeping_rows(read, updated), on_shards():
                run(tuple(index), tuple(gradients), tuple(weights))
        finally:
            for array in (*weight, *grad):
                if isinstance(array, ParameterArray):
                    array.note_change()


def _lay_out_gradient(gradient: Any, weight: Any) -> Any:
    """A gradient as its weight lies: that which was written before a model was bound, or by a user, lies elsewhere."""
    if not isinstance(weight, ParameterArray):
        return gradient
    if not isinstance(gradient, ParameterArray):
        tensor = zeros_like(weight.layout)
        tensor.scatter(gradient)
        return ShardedArray(tensor)
    if not gradient.layout.matches(weight.layout):
        gradient.move(zeros_like(weight.layout))
    return ShardedArray(gradient.tensor)


def _lay_out_states(updater: Any, indices: Sequence[Any], weights: Sequence[Any]) -> None:
    """Make the states that are missing; those from files, and those of weights that have moved, go where their weights are."""
    for index, weight in zip(indices, weights, strict=True):
        if index not in updater.states:
            updater.states[index] = updater.optimizer.create_state_multi_precision(index, weight)
            updater.states_synced[index] = True
        if isinstance(weight, ShardedArray):
            updater.states[index] = lay_out(updater.states[index], weight.tensor)
            updater.states_synced[index] = True
