"""*Peers*: plans made by hand, such as data parallelism, for comparison with Tofu's plans.

A peer only chooses the shardings of a step's arguments. JAX's compiler (its part GSPMD) decides the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import UnsupportedError
from tofu.jax.frontend.value_types import find_dtype
from tofu.search import factorize

SMALL_BYTES = 64 * 1024
"""Fully sharded data parallelism replicates tensors with fewer bytes than this."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a training step: arrays, or only shapes. `batch` is the size of the batch dimension."""

    state: Any
    data: tuple[Any, ...]
    batch: int

    @property
    def all(self) -> tuple[Any, ...]:
        """The state and the data, in the order of the step's parameters."""
        return self.state, *self.data


Peer: TypeAlias = Callable[[Mesh, Arguments], tuple[Any, ...]]
"""A plan made by hand: a function that returns the shardings of each argument, as a tree or as a list."""


def split_arguments(arguments: Sequence[Any], batch: int | None = None) -> Arguments:
    """Split the arguments of a step into the state (the first argument) and the data.

    The default for `batch` is the most frequent length of dimension 0. Raise UnsupportedError if no array has a
    dimension of length `batch`.
    """
    state, *data = arguments or (None,)
    leaves = jax.tree.leaves(data)
    counts = Counter(np.shape(leaf)[0] for leaf in leaves if np.shape(leaf))
    batch = batch if batch is not None else max(counts, key=lambda extent: counts[extent], default=0)
    if not any(batch in np.shape(leaf) for leaf in leaves):
        raise UnsupportedError(
            f"The batch cannot be split: no argument after the first has a dimension{f' of extent {batch}' if batch else ''}. "
            "Say which extent the batch has (--batch N)."
        )
    return Arguments(state, tuple(data), batch)


def make_mesh(devices: Sequence[Any]) -> Mesh:
    """Return a device grid with an axis for each prime factor of the number of devices: 3 x 2 for 6 devices."""
    factors = factorize(len(devices))
    return Mesh(np.array(devices, object).reshape(factors), tuple(f"axis{n}" for n in range(len(factors))))


def make_sharding(mesh: Mesh, rank: int, split: Mapping[int, Sequence[str]]) -> NamedSharding:
    """Return a sharding of an array. `split={0: ["x"]}` splits dimension 0 along axis x of the device grid `mesh`."""
    return NamedSharding(mesh, PartitionSpec(*(tuple(split.get(d, ())) or None for d in range(rank))))


def shard_batch(mesh: Mesh, arguments: Arguments, names: Sequence[str]) -> tuple[Any, ...]:
    """Return shardings of the data that split the batch along the axes `names` of the device grid `mesh`.

    Arrays without a batch dimension are replicated. Raise UnsupportedError if the batch cannot be divided equally.
    """
    parts = prod(mesh.shape[name] for name in names)
    if arguments.batch % parts:
        raise UnsupportedError(
            f"A batch of {arguments.batch} cannot be split into {parts} equal shards. Use a multiple of {parts}, or another number of "
            "workers."
        )

    def place(leaf: Any) -> NamedSharding:
        shape = np.shape(leaf)
        return make_sharding(
            mesh, len(shape), {shape.index(arguments.batch): names} if arguments.batch in shape else {}
        )

    return tuple(list(map(place, jax.tree.leaves(argument))) for argument in arguments.data)


def data_parallel(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
    """Return shardings that split the batch and replicate the state."""
    state = [make_sharding(mesh, len(np.shape(leaf)), {}) for leaf in jax.tree.leaves(arguments.state)]
    return state, *shard_batch(mesh, arguments, mesh.axis_names)


def fully_sharded(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
    """Return shardings that split the batch and the large tensors of the state (FSDP, ZeRO-3).

    Of the dimensions whose length is a multiple of the number of devices, the longest is split.
    """

    def place(leaf: Any) -> NamedSharding:
        shape = np.shape(leaf)
        divisible = [d for d, extent in enumerate(shape) if extent and extent % mesh.size == 0]
        if not divisible or prod(shape) * find_dtype(leaf).itemsize < SMALL_BYTES:
            return make_sharding(mesh, len(shape), {})
        return make_sharding(mesh, len(shape), {max(divisible, key=lambda d: shape[d]): mesh.axis_names})

    return list(map(place, jax.tree.leaves(arguments.state))), *shard_batch(mesh, arguments, mesh.axis_names)


PEERS: Mapping[str, Peer] = {"data parallel": data_parallel, "FSDP / ZeRO-3": fully_sharded}
"""The peers that apply to any step."""
