"""Data parallelism between machines, around a model that is partitioned within each: gradients are summed by MXNet's distributed kvstore.

Every machine runs the same plan on its own part of the batch. Each shard goes to the servers and back once, so a machine moves its
gradients once each way, whatever the number of its workers; the update runs on all machines alike, where the shards lie.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import mxnet as mx

from tofu.errors import PlanError, UnsupportedError
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.validation import show

# Keys of the kvstore: the same on all machines, and far from those that a Trainer counts from 0.
_keys = count(1 << 24)


class Cluster:
    """The machines that train one model together.

    Parameters
    ----------
    kvstore
        One of MXNet's with "dist" and "sync" in its type. Its environment (DMLC_ROLE, DMLC_PS_ROOT_URI, ...) says where the others are.
    """

    def __init__(self, kvstore: Any) -> None:
        self.kvstore = kvstore
        self._key_of: dict[tuple[str, int], int] = {}

    @property
    def machines(self) -> int:
        """How many processes train."""
        return int(self.kvstore.num_workers)

    def share(self, executor: ShardedExecutor, names: Sequence[str]) -> None:
        """Have all machines begin with the parameters of the first. Raises PlanError where their plans differ."""
        compare_plans(self.kvstore, executor.partition.plan.to_json())
        shards = list(self._list_shards({name: executor.variables[name] for name in names}))
        for key, held in shards:
            self.kvstore.init(key, held[0])
            self.kvstore.pull(key, out=held)
        # A gradient goes by the same key, and need not depend on its parameter: one that arrives first would be pulled as its values.
        for _, held in shards:
            for array in held:
                array.wait_to_read()

    def sum_gradients(self, executor: ShardedExecutor, names: Sequence[str]) -> None:
        """Replace the gradients by their sums over all machines."""
        shards = self._list_shards({name: executor.gradient(name) for name in names})
        for number, (key, held) in enumerate(shards):
            self.kvstore.push(key, held[0], priority=-number)
            self.kvstore.pull(key, out=held, priority=-number)

    def _list_shards(self, tensors: Mapping[str, ShardedTensor]) -> Iterator[tuple[int, list[Any]]]:
        """A key of the kvstore for each distinct region of each tensor, and the arrays of all workers that hold it."""
        for name, tensor in tensors.items():
            for number, (_, held) in enumerate(tensor.list_distinct()):
                if (name, number) not in self._key_of:
                    self._key_of[name, number] = make_key()
                yield self._key_of[name, number], held


def make_key() -> int:
    """A new key of the kvstore. Machines that run one script make the same ones."""
    return next(_keys)


def compare_plans(kvstore: Any, text: str) -> None:
    """Raise PlanError where the text, in which a plan is told, is not that of the first machine."""
    own = zlib.crc32(text.encode()) % (1 << 20)  # a float32 holds it exactly
    first = mx.nd.array([own])
    kvstore.broadcast(make_key(), first, first)
    if int(first.asscalar()) != own:
        raise PlanError(
            f"Machine {kvstore.rank} has another plan than machine 0, so their shards do not belong together. Have all of them "
            "run the same script with the same number of workers and shapes, or give each the same file: plan=..."
        )


def read_kvstore(kvstore: Any) -> Cluster | None:
    """The cluster that a kvstore names, or None for one of a single machine. Raises UnsupportedError where each machine updates alone."""
    kind = str(getattr(kvstore, "type", kvstore))
    if "dist" not in kind:
        return None
    if "async" in kind:
        raise UnsupportedError(
            f"kvstore={show(kind)} updates on its servers, for one machine at a time. Use 'dist_sync', where all machines update alike."
        )
    return Cluster(mx.kvstore.create(kvstore) if isinstance(kvstore, str) else kvstore)
