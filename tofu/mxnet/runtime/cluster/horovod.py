"""Training on several machines by Horovod. Each machine partitions the model; Horovod averages the gradient shards.

Horovod's DistributedOptimizer first averages arrays by their handles, which only shards have, and then calls MXNet's
optimizer. This module runs the two steps separately.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import mxnet as mx

from tofu.errors import PlanError
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.cluster.exchange import ExchangeLayout, agree, parameter_array

MODULE, NAME, TRAINER = "horovod.mxnet", "DistributedOptimizer", "DistributedTrainer"
_compared = "_tofu_compared"  # attribute of an optimizer: True once the machines' plans were compared


def is_distributed(optimizer: Any) -> bool:
    """Return True for Horovod's optimizer, without importing Horovod."""
    return _is_made_by(optimizer, NAME)


def is_horovod_trainer(trainer: Any) -> bool:
    """Return True for Horovod's Gluon Trainer, without importing Horovod."""
    return _is_made_by(trainer, TRAINER)


def _is_made_by(given: Any, name: str) -> bool:
    return any((kind.__module__, kind.__name__) == (MODULE, name) for kind in type(given).__mro__)


def own_optimizer(optimizer: Any) -> Any:
    """Return the MXNet optimizer that updates the weights, which Horovod's optimizer contains."""
    return optimizer._optimizer if is_distributed(optimizer) else optimizer


def scaled_machines(optimizer: Any) -> int:
    """Return the number of machines by which Horovod divides the optimizer's `rescale_grad`."""
    is_scaled = is_distributed(optimizer) and optimizer._average_in_framework
    return int(optimizer._process_set.size()) if is_scaled else 1


def average_gradients(optimizer: Any, indices: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Average each distinct gradient shard between machines, if the optimizer is a DistributedOptimizer.

    Raises PlanError if machines have different plans.
    """
    if not is_distributed(optimizer) or not optimizer._process_set.included() or optimizer._process_set.size() == 1:
        return
    # The region is part of the name, so that shards of different plans are never averaged.
    shards = {
        f"{index} {region}": held
        for index, gradient in zip(indices, gradients, strict=True)
        for region, held in _list_shards(gradient)
    }
    if not getattr(optimizer, _compared, False):
        _compare_plans(optimizer._process_set, "\n".join(shards))
        setattr(optimizer, _compared, True)
    optimizer._do_allreduce(tuple(shards), [held[0] for held in shards.values()])
    _copy_to_others(shards.values())


def _copy_to_others(shards: Iterable[Sequence[Any]]) -> None:
    for first, *copies in shards:
        for copied in copies:
            first.copyto(copied)


def _list_shards(gradient: Any) -> list[tuple[str, list[Any]]]:
    if not isinstance(gradient, ShardedArray):
        return [("whole", [gradient])]
    return [
        (" ".join(f"{low}:{high}" for low, high in region), held) for region, held in gradient.tensor.list_distinct()
    ]


def _compare_plans(process_set: Any, text: str) -> None:
    own = zlib.crc32(text.encode()) % (1 << 31)
    horovod = import_module(MODULE)
    of_all = horovod.allgather(mx.nd.array([own], dtype="int32"), name="tofu plans", process_set=process_set).asnumpy()
    if (of_all != own).any():
        raise PlanError(
            f"The machines have different plans, so their shards do not match: machine {horovod.rank()} has {own}, all machines have "
            f"{', '.join(map(str, of_all))}. Run the same script with the same number of workers and shapes on all machines, or give each "
            "the same file: plan=..."
        )


@dataclass(frozen=True)
class _Shard:
    """Shard of a gradient, with the attributes of a parameter that Horovod's Trainer reads."""

    array: Any
    grad_req: str = "write"

    def list_grad(self) -> list[Any]:
        return [self.array]


class HorovodShardTrainer(mx.gluon.Trainer):  # type: ignore[misc]  # MXNet is untyped
    """Base class that is added to the class of a Horovod Trainer, so that it averages each distinct shard once."""

    _params: list[Any]
    _process_set: Any

    def _allreduce_grads(self) -> None:
        if not self._process_set.included() or self._process_set.size() == 1:
            return
        parameters = self._params
        arrays = {i: array for i, p in enumerate(parameters) if (array := parameter_array(p)) is not None}
        gradients = {i: array.gradient for i, array in arrays.items() if array.gradient is not None}
        agreed = self._agree({i: arrays[i] for i in gradients})
        sent = {i: agreed[i].read(gradient) for i, gradient in gradients.items()}
        shards = {i: [held for _, held in tensor.list_distinct()] for i, tensor in sent.items()}
        instead = [[_Shard(held[0]) for held in shards[i]] if i in shards else [p] for i, p in enumerate(parameters)]
        self._params = [parameter for shown in instead for parameter in shown]
        try:
            super()._allreduce_grads()
        finally:
            self._params = parameters
        for i, gradient in gradients.items():
            _copy_to_others(shards[i])
            agreed[i].write(gradient, sent[i])

    def _agree(self, arrays: Mapping[int, ParameterArray]) -> dict[int, ExchangeLayout]:
        known: dict[int, ExchangeLayout] = self.__dict__.setdefault("_agreed", {})
        added = {i: array for i, array in arrays.items() if i not in known}
        if added:
            layouts, text = agree(added)
            _compare_plans(self._process_set, text)
            known.update(layouts)
        return known
