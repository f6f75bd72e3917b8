"""Train on several machines that exchange gradients through MXNet's distributed kvstore, a store that all can read.

All machines run the same plan, each on a part of the batch. Each distinct shard of a gradient is sent to a server once.
The server sends back the sum over the machines.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import count
from typing import Any

import mxnet as mx

from tofu.errors import PlanError, UnsupportedError
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.validation import show

_keys = count(1 << 24)  # equal on all machines, and far from a Trainer's keys, which start at 0


class Cluster:
    """Machines that train one model together.

    Parameters
    ----------
    kvstore
        A synchronous distributed kvstore of MXNet, such as "dist_sync".
    """

    def __init__(self, kvstore: Any) -> None:
        self.kvstore = kvstore
        self._layouts: dict[str, ShardedTensor] = {}  # parameter -> the split in which machines exchange it
        self._keys: dict[str, list[int]] = {}  # parameter -> keys of its distinct shards

    @property
    def machines(self) -> int:
        """Number of machines. Each runs one process."""
        return int(self.kvstore.num_workers)

    def share(self, executor: ShardedExecutor, names: Sequence[str]) -> None:
        """Copy the first machine's parameters to all machines. Raise PlanError if machines have different plans."""
        compare_plans(self.kvstore, executor.partition.plan.to_json())
        self._keys |= {name: share_shards(self.kvstore, executor.variables[name]) for name in names}
        self._layouts |= {name: executor.variables[name].zeros_like() for name in names}

    def sum_gradients(self, executor: ShardedExecutor, names: Sequence[str]) -> None:
        """Replace each gradient in `names` by its sum over all machines.

        The executor may split a gradient differently from the executor that was passed to `share`.
        """
        gradients = {name: executor.gradient(name) for name in names}
        exchanged = {name: gradient.in_layout_of(self._layouts[name]) for name, gradient in gradients.items()}
        shards = [
            shard
            for name, gradient in exchanged.items()
            for shard in zip(self._keys[name], gradient.list_distinct(), strict=True)
        ]
        for number, (key, (_, copies)) in enumerate(shards):
            self.kvstore.push(key, copies[0], priority=-number)
            self.kvstore.pull(key, out=copies, priority=-number)
        for name, gradient in gradients.items():
            if exchanged[name] is not gradient:
                gradient.scatter(exchanged[name].gather())


def make_key() -> int:
    """Return a new key for the kvstore (shared store). All machines get the same keys in the same order."""
    return next(_keys)


def share_shards(kvstore: Any, tensor: ShardedTensor) -> list[int]:
    """Copy the first machine's values to all machines. Return a new key of the kvstore for each distinct shard."""
    shards = [(make_key(), copies) for _, copies in tensor.list_distinct()]
    for key, copies in shards:
        kvstore.broadcast(key, copies[0], copies)
    # Gradients have the same keys. If a gradient arrived before the values are pulled, it would be pulled instead.
    for shard in tensor.arrays:
        shard.wait_to_read()
    return [key for key, _ in shards]


def compare_plans(kvstore: Any, text: str) -> None:
    """Raise PlanError unless all machines pass the same `text`, which describes their plan."""
    digest = zlib.crc32(text.encode()) % (1 << 20)  # a float32 holds it exactly
    first_digest = mx.nd.array([digest])
    kvstore.broadcast(make_key(), first_digest, first_digest)
    if int(first_digest.asscalar()) != digest:
        raise PlanError(
            f"Machine {kvstore.rank} has another plan than machine 0, so their shards do not match. Run the same script with the same "
            "number of workers and shapes on all machines, or give each the same file: plan=..."
        )


def read_kvstore(kvstore: Any) -> Cluster | None:
    """Return the machines that a kvstore (shared store) connects, or None if there is only this machine.

    Raise UnsupportedError for an asynchronous kvstore.
    """
    kvstore_type = str(getattr(kvstore, "type", kvstore))
    if "dist" not in kvstore_type:
        return None
    if "async" in kvstore_type:
        raise UnsupportedError(
            f"kvstore={show(kvstore_type)} updates on its servers, for one machine at a time. Use 'dist_sync', where all machines update "
            "together."
        )
    return Cluster(mx.kvstore.create(kvstore) if isinstance(kvstore, str) else kvstore)
