"""Gluon Trainers on several machines, which exchange shards of parameters and gradients.

MXNet's Trainer sends whole arrays to a kvstore, which all machines can read. `send_shards` replaces the kvstore by a
`ShardStore`, which sends shards. Equal shards of several workers are sent once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import mxnet as mx

from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.cluster.cluster import compare_plans, share_shards
from tofu.mxnet.runtime.cluster.exchange import describe_layouts, parameter_array, read_shards, write_shards
from tofu.mxnet.runtime.cluster.horovod import HorovodShardTrainer, is_horovod_trainer

# Optimizers that update each element of a weight alone, without norms, random numbers, or (as Nadam) a count of calls.
ELEMENTWISE_OPTIMIZERS = frozenset(
    getattr(mx.optimizer, name)
    for name in ("SGD", "ccSGD", "NAG", "Signum", "FTML", "Adam", "AdaGrad", "RMSProp", "AdaDelta", "Ftrl", "Adamax")
)


def send_shards(trainer: Any) -> None:
    """Make a Trainer exchange the parameters of partitioned blocks as shards. Changes the Trainer in place."""
    trainer_class: Any = type(trainer)
    if not issubclass(trainer_class, (ShardTrainer, HorovodShardTrainer)):
        mixin = HorovodShardTrainer if is_horovod_trainer(trainer) else ShardTrainer
        trainer.__class__ = extend_class(trainer_class, mixin)


@cache
def extend_class(mxnet_class: Any, mixin: Any, prefix: str = "Sharded") -> Any:
    """Return a subclass of `mxnet_class` with the methods of `mixin`."""
    return type(f"{prefix}{mxnet_class.__name__}", (mixin, mxnet_class), {"__module__": mxnet_class.__module__})


class ShardTrainer(mx.gluon.Trainer):  # type: ignore[misc]  # MXNet is untyped
    """A Gluon Trainer that exchanges shards between machines."""

    _kvstore: Any
    _params_to_init: list[Any]

    def _init_kvstore(self) -> None:
        super()._init_kvstore()
        # Servers that update shards know neither which shards belong to one weight, nor the settings of that weight.
        if self._kvstore and (not self._update_on_kvstore or (self._distributed and is_elementwise(self._optimizer))):
            self._kvstore = ShardStore(self._kvstore)

    def _init_params(self) -> None:
        if isinstance(self._kvstore, ShardStore):
            sharded = self._list_sharded(self._params_to_init)
            self._kvstore.share(sharded)
            self._params_to_init = [p for p in self._params_to_init if self._param2idx[p.name] not in sharded]
        super()._init_params()

    def _allreduce_grads(self) -> None:
        if isinstance(self._kvstore, ShardStore):
            self._kvstore.settle(self._list_sharded(self._params))
        super()._allreduce_grads()

    def _list_sharded(self, parameters: Any) -> dict[int, ParameterArray]:
        arrays = {self._param2idx[parameter.name]: parameter_array(parameter) for parameter in parameters}
        return {index: array for index, array in arrays.items() if array is not None}


def is_elementwise(optimizer: Any) -> bool:
    """Return True if the optimizer may treat each shard as a separate weight."""
    return type(optimizer) in ELEMENTWISE_OPTIMIZERS and not (
        optimizer.idx2name or optimizer.lr_mult or optimizer.wd_mult
    )


class ShardStore:
    """Exchange shards of parameters between machines, through an MXNet kvstore (a store that all machines can read).

    Each distinct shard has its own key in `kvstore`.
    """

    def __init__(self, kvstore: Any) -> None:
        self._kvstore = kvstore
        self._layouts: dict[int, ShardedTensor] = {}  # parameter -> the split in which machines exchange it
        self._keys: dict[int, list[int]] = {}  # parameter -> keys of its distinct shards
        self._settled: set[int] = set()  # parameters whose layout no longer changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kvstore, name)

    def share(self, arrays: Mapping[int, ParameterArray]) -> None:
        """Copy the first machine's values to all machines. Raise PlanError if machines split the arrays differently."""
        if not arrays:
            return
        layouts, text = describe_layouts(arrays)
        compare_plans(self._kvstore, text)
        for index, array in arrays.items():
            values = read_shards(array, layouts[index])
            self._keys[index] = share_shards(self._kvstore, values)
            write_shards(array, values)
        self._layouts |= layouts

    def settle(self, arrays: Mapping[int, ParameterArray]) -> None:
        """For each parameter whose split has changed, copy the first machine's values to all machines.

        Check each parameter only once.
        """
        unsettled = {i: array for i, array in arrays.items() if i in self._layouts and i not in self._settled}
        self.share({i: array for i, array in unsettled.items() if not self._layouts[i].matches(array.layout)})
        self._settled |= unsettled.keys()

    def pushpull(self, key: int, value: Any, out: Any = None, priority: int = 0) -> None:
        """Send an array to the kvstore, and read the result into `out`.

        If the parameter is split into shards, `value` and `out` are lists with one array.
        """
        layout = self._layouts.get(key)
        if layout is None:
            self._kvstore.pushpull(key, value, out=out, priority=priority)
            return
        (gradient,), (result,) = value, value if out is None else out
        sent = read_shards(gradient, layout)
        received = sent if result is gradient else read_shards(result, layout)
        shards = zip(self._keys[key], sent.list_distinct(), received.list_distinct(), strict=True)
        for shard_key, (_, sent_copies), (_, received_copies) in shards:
            self._kvstore.pushpull(shard_key, sent_copies[0], out=received_copies, priority=priority)
        write_shards(result, received)
