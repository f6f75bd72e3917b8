"""Train on several machines with the library Horovod. Each machine splits the model over its devices.

Horovod's DistributedOptimizer averages gradients between machines, and then calls MXNet's optimizer. But it only
accepts a gradient in one array. So this module lets Horovod average shard by shard, and then calls MXNet's optimizer.
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
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.cluster.exchange import describe_layouts, parameter_array, read_shards, write_shards

MODULE, OPTIMIZER, TRAINER = "horovod.mxnet", "DistributedOptimizer", "DistributedTrainer"
_HAS_COMPARED_PLANS = "_tofu_compared"  # attribute of an optimizer: True once the machines' plans were compared


def is_distributed(optimizer: Any) -> bool:
    """Return True for the DistributedOptimizer of Horovod (a library for several machines). Does not import Horovod."""
    return _is_instance(optimizer, OPTIMIZER)


def is_horovod_trainer(trainer: Any) -> bool:
    """Return True for Horovod's Gluon Trainer, without importing Horovod."""
    return _is_instance(trainer, TRAINER)


def _is_instance(value: Any, class_name: str) -> bool:
    return any((c.__module__, c.__name__) == (MODULE, class_name) for c in type(value).__mro__)


def own_optimizer(optimizer: Any) -> Any:
    """Return the MXNet optimizer inside Horovod's DistributedOptimizer. Return any other optimizer unchanged."""
    return optimizer._optimizer if is_distributed(optimizer) else optimizer


def scaled_machines(optimizer: Any) -> int:
    """Return the number of machines by which Horovod divides `rescale_grad`. Return 1 without Horovod."""
    is_scaled = is_distributed(optimizer) and optimizer._average_in_framework
    return int(optimizer._process_set.size()) if is_scaled else 1


def average_gradients(optimizer: Any, indices: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Average the gradients over all machines if `optimizer` is Horovod's.

    Raise PlanError if the machines have different plans.
    """
    if not is_distributed(optimizer) or not optimizer._process_set.included() or optimizer._process_set.size() == 1:
        return
    # The region is part of the name, so that shards of different plans are never averaged.
    copies_by_name = {
        f"{index} {region}": copies
        for index, gradient in zip(indices, gradients, strict=True)
        for region, copies in _list_shards(gradient)
    }
    if not getattr(optimizer, _HAS_COMPARED_PLANS, False):
        _compare_plans(optimizer._process_set, "\n".join(copies_by_name))
        setattr(optimizer, _HAS_COMPARED_PLANS, True)
    optimizer._do_allreduce(tuple(copies_by_name), [copies[0] for copies in copies_by_name.values()])
    _update_copies(copies_by_name.values())


def _update_copies(shards: Iterable[Sequence[Any]]) -> None:
    for first, *others in shards:
        for other in others:
            first.copyto(other)


def _list_shards(gradient: Any) -> list[tuple[str, list[Any]]]:
    if not isinstance(gradient, ShardedArray):
        return [("whole", [gradient])]
    shards = gradient.tensor.list_distinct()
    return [(" ".join(f"{begin}:{end}" for begin, end in region), copies) for region, copies in shards]


def _compare_plans(process_set: Any, text: str) -> None:
    digest, horovod = zlib.crc32(text.encode()) % (1 << 31), import_module(MODULE)
    array = mx.nd.array([digest], dtype="int32")
    digests = horovod.allgather(array, name="tofu plans", process_set=process_set).asnumpy()
    if (digests != digest).any():
        raise PlanError(
            f"The machines have different plans, so their shards do not match: machine {horovod.rank()} has {digest}, all machines have "
            f"{', '.join(map(str, digests))}. Run the same script with the same number of workers and shapes on all machines, or give each "
            "the same file: plan=..."
        )


@dataclass(frozen=True)
class _Shard:
    array: Any
    grad_req: str = "write"

    def list_grad(self) -> list[Any]:
        return [self.array]


class HorovodShardTrainer(mx.gluon.Trainer):  # type: ignore[misc]  # MXNet is untyped
    """A Horovod Trainer that averages shards of gradients over machines."""

    _params: list[Any]
    _process_set: Any

    def _allreduce_grads(self) -> None:
        if not self._process_set.included() or self._process_set.size() == 1:
            return
        parameters = self._params
        arrays = {i: array for i, p in enumerate(parameters) if (array := parameter_array(p)) is not None}
        gradients = {i: array.gradient for i, array in arrays.items() if array.gradient is not None}
        layouts = self._agree_on_layouts({i: arrays[i] for i in gradients})
        exchanged = {i: read_shards(gradient, layouts[i]) for i, gradient in gradients.items()}
        shards = {i: [copies for _, copies in tensor.list_distinct()] for i, tensor in exchanged.items()}
        sent: list[Any] = []
        for i, parameter in enumerate(parameters):
            sent += [_Shard(copies[0]) for copies in shards[i]] if i in shards else [parameter]
        self._params = sent
        try:
            super()._allreduce_grads()
        finally:
            self._params = parameters
        for i, gradient in gradients.items():
            _update_copies(shards[i])
            write_shards(gradient, exchanged[i])

    def _agree_on_layouts(self, arrays: Mapping[int, ParameterArray]) -> dict[int, ShardedTensor]:
        layouts: dict[int, ShardedTensor] = self.__dict__.setdefault("_agreed_layouts", {})
        new_arrays = {i: array for i, array in arrays.items() if i not in layouts}
        if new_arrays:
            new_layouts, text = describe_layouts(new_arrays)
            _compare_plans(self._process_set, text)
            layouts.update(new_layouts)
        return layouts
