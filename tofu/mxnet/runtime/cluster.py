"""Data parallelism between machines, around a model that is partitioned within each: gradients are summed by MXNet's distributed kvstore.

Every machine runs the same plan on its own part of the batch. Each shard goes to the servers and back once, so a machine moves its
gradients once each way, whatever the number of its workers; the update runs on all machines alike, where the shards lie.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import mxnet as mx

from tofu.errors import PlanError, UnsupportedError
from tofu.mxnet.runtime.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.shards import ShardedTensor
from tofu.reading import show


class Cluster:
    """The machines that train one model together.

    Parameters
    ----------
    kvstore
        One of MXNet's with "dist" and "sync" in its type. Its environment (DMLC_ROLE, DMLC_PS_ROOT_URI, ...) says where the others are.
    """

    def __init__(self, kvstore: Any) -> None:
        self.kvstore = kvstore

    @property
    def machines(self) -> int:
        """How many processes train."""
        return int(self.kvstore.num_workers)

    def share(self, executor: ShardedExecutor, names: Sequence[str]) -> None:
        """Have all machines begin with the parameters of the first. Raises PlanError where their plans differ."""
        self._compare_plans(executor)
        for key, held in _list_shards([executor.variables[name] for name in names]):
            self.kvstore.init(key, held[0])
            self.kvstore.pull(key, out=held)

    def _compare_plans(self, executor: ShardedExecutor) -> None:
        plan = executor.partition.plan
        own = zlib.crc32(plan.to_json().encode()) % (1 << 20)  # a float32 holds it exactly
        first = mx.nd.array([own])
        self.kvstore.init("tofu_plan", first)
        self.kvstore.pull("tofu_plan", out=first)
        if int(first.asscalar()) != own:
            raise PlanError(
                f"Machine {self.kvstore.rank} has another plan than machine 0, so their shards do not belong together. Have all of them "
                "run the same script with the same number of workers and shapes, or give each the same file: plan=..."
            )

    def sum_gradients(self, executor: ShardedExecutor, names: Sequence[str]) -> None:
        """Replace the gradients by their sums over all machines."""
        shards = list(_list_shards([executor.gradient(name) for name in names], names))
        for priority, (key, held) in enumerate(shards):
            self.kvstore.push(key, held[0], priority=-priority)
            self.kvstore.pull(key, out=held, priority=-priority)


def _list_shards(
    tensors: Sequence[ShardedTensor], names: Sequence[str] | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """A key of the kvstore for each distinct region of each tensor, and the arrays of all workers that hold it."""
    for tensor, name in zip(tensors, names or [tensor.name for tensor in tensors], strict=True):
        for worker in tensor.owners:
            region = tensor.regions[worker]
            held = [array for array, own in zip(tensor.arrays, tensor.regions, strict=True) if own == region]
            yield f"{name}@{worker}", held


def read_kvstore(kvstore: Any, compression: Any = None) -> Cluster | None:
    """The cluster that a kvstore names, or None for one of a single machine. Raises UnsupportedError for what Tofu cannot train through."""
    kind = str(getattr(kvstore, "type", kvstore))
    if "dist" not in kind:
        if compression:
            raise UnsupportedError(
                f"compression_params={show(compression)} is for gradients that go between machines: give kvstore='dist_sync' with it."
            )
        return None
    if "async" in kind:
        raise UnsupportedError(
            f"kvstore={show(kind)} updates on its servers, one machine at a time. Use 'dist_sync', where all machines update alike."
        )
    made = mx.kvstore.create(kvstore) if isinstance(kvstore, str) else kvstore
    if compression:
        made.set_gradient_compression(dict(compression))
    return Cluster(made)
