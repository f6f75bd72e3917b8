"""Horovod between machines, around a model that is partitioned within each: shards of gradients are averaged, not whole tensors.

Horovod's DistributedOptimizer averages a gradient between machines and then has MXNet's optimizer update the weight. It gives the arrays to
its library by their handles, which shards have and a sharded array has not. So the two are taken apart here.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import mxnet as mx

from tofu.errors import PlanError
from tofu.mxnet.runtime.sharded_array import ShardedArray

MODULE, NAME = "horovod.mxnet", "DistributedOptimizer"
_compared = "_tofu_compared"  # an attribute of an optimizer: whether machines were seen to have one plan


def is_distributed(optimizer: Any) -> bool:
    """Whether this is Horovod's, which must not be imported to know."""
    return any((kind.__module__, kind.__name__) == (MODULE, NAME) for kind in type(optimizer).__mro__)


def own_optimizer(optimizer: Any) -> Any:
    """What updates the weights: MXNet's optimizer within Horovod's, or the one that is given."""
    return optimizer._optimizer if is_distributed(optimizer) else optimizer


def scaled_machines(optimizer: Any) -> int:
    """How many machines the optimizer within has its `rescale_grad` divided by."""
    is_scaled = is_distributed(optimizer) and optimizer._average_in_framework
    return int(optimizer._process_set.size()) if is_scaled else 1


def average_gradients(optimizer: Any, indices: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Average gradients between the machines of a DistributedOptimizer, each distinct shard once; with any other optimizer nothing is done.

    Raises PlanError where machines have different plans.
    """
    if not is_distributed(optimizer) or not optimizer._process_set.included() or optimizer._process_set.size() == 1:
        return
    # The region is part of the name: shards of different plans do not meet.
    shards = {
        f"{index} {worker} {region}": held
        for index, gradient in zip(indices, gradients, strict=True)
        for worker, region, held in _list_shards(gradient)
    }
    if not getattr(optimizer, _compared, False):
        _compare_plans(optimizer, "\n".join(shards))
        setattr(optimizer, _compared, True)
    optimizer._do_allreduce(tuple(shards), [held[0] for held in shards.values()])
    for first, *others in shards.values():
        for other in others:
            first.copyto(other)


def _list_shards(gradient: Any) -> list[tuple[int, str, list[Any]]]:
    """For each distinct region the first worker that has it, the region, and the arrays of all that do; an ordinary array is one."""
    if not isinstance(gradient, ShardedArray):
        return [(0, "whole", [gradient])]
    tensor = gradient.tensor
    regions = {worker: tensor.regions[worker] for worker in tensor.owners}
    return [
        (worker, " ".join(f"{low}:{high}" for low, high in region), tensor.list_holding(region))
        for worker, region in regions.items()
    ]


def _compare_plans(optimizer: Any, text: str) -> None:
    own = zlib.crc32(text.encode()) % (1 << 31)
    horovod = import_module(MODULE)
    of_all = horovod.allgather(
        mx.nd.array([own], dtype="int32"), name="tofu plans", process_set=optimizer._process_set
    ).asnumpy()
    if (of_all != own).any():
        raise PlanError(
            f"The machines have different plans, so their shards do not belong together: machine {horovod.rank()} has {own}, of all "
            f"{', '.join(map(str, of_all))}. Have all of them run the same script with the same number of workers and shapes, or give each "
            "the same file: plan=..."
        )
