"""Modules that share parameters, as the buckets of `mx.mod.BucketingModule` do: the present values are in one place at a time.

Where two modules' plans lay a parameter out alike, they have the same shards and nothing moves. Where they do not, it moves when another
module of the group is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor


class SharedParameters:
    """The executors of several modules over the same parameters.

    Parameters
    ----------
    owner
        The executor that has the present values.
    """

    def __init__(self, owner: ShardedExecutor) -> None:
        self._owner = owner

    def bring_to(self, executor: ShardedExecutor, names: Collection[str]) -> None:
        """Give an executor the present values of the parameters in `names`, and of the gradients that it adds up."""
        before, self._owner = self._owner, executor
        if before is not executor:
            move(before.variables, {name: executor.variables[name] for name in names})
            move(before.sums, executor.sums)

    def leave_to(self, executor: ShardedExecutor) -> None:
        """Say that an executor has the present values."""
        self._owner = executor


def move(before: Mapping[str, ShardedTensor], after: Mapping[str, ShardedTensor]) -> None:
    """Copy the tensors that both have into the layouts that they have now."""
    for name, new in after.items():
        old = before.get(name, new)
        if old is not new and old.shape == new.shape:
            new.scatter(old.gather())
