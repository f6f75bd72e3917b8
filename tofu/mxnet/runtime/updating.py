"""The updater of a Gluon Trainer, on shards: MXNet's own optimizer runs once for each parameter, its operators where the shards lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx

from tofu.host.interrupts import uninterrupted
from tofu.mxnet.gluon.array import ParameterArray, zeros_like
from tofu.mxnet.runtime.optimizer import lay_out, updater_for
from tofu.mxnet.runtime.sharded_array import ShardedArray
from tofu.mxnet.runtime.shardwise import on_shards


class ShardUpdater(mx.optimizer.Updater):  # type: ignore[misc]  # MXNet is untyped
    """An Updater whose weights may be `ParameterArray`s; ordinary ones are updated as they are."""

    def __init__(self, before: Any) -> None:
        super().__init__(before.optimizer)
        self.states, self.states_synced = before.states, before.states_synced

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update each weight by its gradient."""
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        for gradient, of in zip(grad, weight, strict=True):
            if isinstance(gradient, ParameterArray) and not gradient.layout.matches(of.layout):
                gradient.move(zeros_like(of.layout))  # it was written before the model was bound
        weights, gradients = list(map(_shards, weight)), list(map(_shards, grad))
        with uninterrupted():
            with on_shards():
                self._lay_out(index, weights)
                run = updater_for(self.optimizer)
                run.states, run.states_synced = self.states, self.states_synced
                run(tuple(index), tuple(gradients), tuple(weights))
            for array in (*weight, *grad):
                if isinstance(array, ParameterArray):
                    array.note_change()

    def _lay_out(self, indices: Sequence[Any], weights: Sequence[Any]) -> None:
        """Make the states that are missing; those from files, and those of weights that have moved, go where their weights are."""
        for index, weight in zip(indices, weights, strict=True):
            if index not in self.states:
                self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
                self.states_synced[index] = True
            if isinstance(weight, ShardedArray):
                self.states[index] = lay_out(self.states[index], weight.tensor)
                self.states_synced[index] = True


def _shards(array: Any) -> Any:
    return ShardedArray(array.tensor) if isinstance(array, ParameterArray) else array


def update_on_shards(trainer: Any) -> None:
    """Have a Trainer that was made for Gluon's own parameters update shards. With a kvstore that updates, it does not update itself."""
    trainer._updaters = [
        updater if isinstance(updater, ShardUpdater) else ShardUpdater(updater) for updater in trainer._updaters
    ]
