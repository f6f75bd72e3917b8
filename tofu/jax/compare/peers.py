"""Plans that need no search, as shardings of a step's arguments; XLA's partitioner (GSPMD) does the rest."""

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
from tofu.jax.frontend.equations import find_dtype
from tofu.search import factorize

SMALL_BYTES = 64 * 1024
"""What fully sharded data parallelism leaves whole."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a step, or their shapes: trees of `state` and of the rest, and the extent of the batch in the rest."""

    state: Any
    data: tuple[Any, ...]
    batch: int

    @property
    def all(self) -> tuple[Any, ...]:
        """As the step takes them."""
        return self.state, *self.data


Peer: TypeAlias = Callable[[Mesh, Arguments], tuple[Any, ...]]
"""Shardings of all arguments: of each a tree like it, or those of its leaves in a row."""


def split_arguments(arguments: Sequence[Any], batch: int | None = None) -> Arguments:
    """The state comes first. Without `batch`, that is the extent which most of what else has dimensions begin with.

    Raises UnsupportedError where no dimension of the rest is as long.
    """
    state, *data = arguments or (None,)
    leaves = jax.tree.leaves(data)
    found = Counter(np.shape(leaf)[0] for leaf in leaves if np.shape(leaf))
    batch = batch if batch is not None else max(found, key=lambda extent: found[extent], default=0)
    if not any(batch in np.shape(leaf) for leaf in leaves):
        raise UnsupportedError(
            f"No argument after the first has a dimension{f' of extent {batch}' if batch else ''}, along which the batch could be split. "
            "Say which extent the batch has (--batch N)."
        )
    return Arguments(state, tuple(data), batch)


def make_mesh(devices: Sequence[Any]) -> Mesh:
    """The devices with an axis for each prime factor of their number."""
    factors = factorize(len(devices))
    return Mesh(np.array(devices, object).reshape(factors), tuple(f"axis{n}" for n in range(len(factors))))


def make_sharding(mesh: Mesh, rank: int, split: Mapping[int, Sequence[str]]) -> NamedSharding:
    """Dimension -> the axes of the mesh that split it."""
    return NamedSharding(mesh, PartitionSpec(*(tuple(split.get(d, ())) or None for d in range(rank))))


def shard_batch(mesh: Mesh, arguments: Arguments, names: Sequence[str]) -> tuple[Any, ...]:
    """The batch is split over these axes of the mesh; what has none is whole everywhere."""

    def place(leaf: Any) -> NamedSharding:
        shape = np.shape(leaf)
        return make_sharding(
            mesh, len(shape), {shape.index(arguments.batch): names} if arguments.batch in shape else {}
        )

    return tuple(list(map(place, jax.tree.leaves(one))) for one in arguments.data)


def data_parallel(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
    """The batch is split; the state is whole everywhere."""
    state = [make_sharding(mesh, len(np.shape(leaf)), {}) for leaf in jax.tree.leaves(arguments.state)]
    return state, *shard_batch(mesh, arguments, mesh.axis_names)


def fully_sharded(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
    """FSDP, or ZeRO-3: the batch is split, and so is each tensor of the state that is worth it, along its largest dimension."""

    def place(leaf: Any) -> NamedSharding:
        shape = np.shape(leaf)
        fits = [d for d, extent in enumerate(shape) if extent and extent % mesh.size == 0]
        if not fits or prod(shape) * find_dtype(leaf).itemsize < SMALL_BYTES:
            return make_sharding(mesh, len(shape), {})
        return make_sharding(mesh, len(shape), {max(fits, key=lambda d: shape[d]): mesh.axis_names})

    return list(map(place, jax.tree.leaves(arguments.state))), *shard_batch(mesh, arguments, mesh.axis_names)


PEERS: Mapping[str, Peer] = {"data parallel": data_parallel, "FSDP / ZeRO-3": fully_sharded}
"""Those that any step has."""
