"""Plans that people make by hand, as shardings of a step's arguments; XLA's partitioner (GSPMD) does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.jax_peers.models import Model

SMALL_BYTES = 64 * 1024  # what fully sharded data parallelism leaves whole
SPLIT_BY_MEGATRON = {"q": 1, "k": 1, "v": 1, "o": 0, "up": 1, "down": 0, "embed": 0, "out": 1, "x": 1, "h": 1}
"""The name of a weight -> its dimension that Megatron splits. Of an MLP's weights, "w", every second one is split by rows."""


def _lay(mesh: Mesh, rank: int, split: Mapping[int, tuple[str, ...]]) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*(split.get(d) or None for d in range(rank))))


def _lay_data(mesh: Mesh, model: Model, names: tuple[str, ...]) -> Any:
    return jax.tree.map(lambda a: _lay(mesh, a.ndim, {a.shape.index(model.batch): names}), model.data)


def data_parallel(mesh: Mesh, model: Model) -> Any:
    """The batch is split; the state is whole everywhere."""
    return jax.tree.map(lambda a: _lay(mesh, a.ndim, {}), model.state), _lay_data(mesh, model, mesh.axis_names)


def fully_sharded(mesh: Mesh, model: Model) -> Any:
    """FSDP, or ZeRO-3: the batch is split, and so is each tensor of the state that is worth it, along its largest dimension."""

    def place(a: Any) -> NamedSharding:
        fits = [d for d in range(a.ndim) if a.shape[d] % mesh.size == 0]
        if prod(a.shape) * a.dtype.itemsize < SMALL_BYTES or not fits:
            return _lay(mesh, a.ndim, {})
        return _lay(mesh, a.ndim, {max(fits, key=lambda d: a.shape[d]): mesh.axis_names})

    return jax.tree.map(place, model.state), _lay_data(mesh, model, mesh.axis_names)


def megatron(tensor_axes: int) -> Callable[[Mesh, Model], Any]:
    """Columns, then rows, over the last axes of the mesh; the batch over the others."""

    def plan(mesh: Mesh, model: Model) -> Any:
        kept = len(mesh.axis_names) - tensor_axes
        rows, columns = mesh.axis_names[:kept], mesh.axis_names[kept:]
        degree = prod(mesh.shape[name] for name in columns)

        def place(path: Any, a: Any) -> NamedSharding:
            name = str(getattr(path[-1], "key", ""))
            layer = next((key.idx for key in reversed(path) if hasattr(key, "idx")), 0)
            dimension = 1 - layer % 2 if name == "w" else SPLIT_BY_MEGATRON.get(name)
            if dimension is None or a.ndim < 2 or a.shape[dimension] % degree:
                return _lay(mesh, a.ndim, {})
            return _lay(mesh, a.ndim, {dimension: columns})

        return jax.tree_util.tree_map_with_path(place, model.state), _lay_data(mesh, model, rows)

    return plan


PEERS: Mapping[str, Callable[[Mesh, Model], Any]] = {
    "data parallel": data_parallel,
    "FSDP / ZeRO-3": fully_sharded,
    "Megatron, all axes": megatron(3),
    "Megatron, 2 axes": megatron(2),
    "Megatron, 1 axis": megatron(1),
}
