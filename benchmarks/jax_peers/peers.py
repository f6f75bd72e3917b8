"""Megatron's mixes, as shardings of a step's arguments by the names of its weights, beside the peers that any step has."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding

from tofu.jax.compare.peers import PEERS, Arguments, Peer, lay, lay_data

SPLIT_BY_MEGATRON = {"q": 1, "k": 1, "v": 1, "o": 0, "up": 1, "down": 0, "embed": 0, "out": 1, "x": 1, "h": 1}
"""The name of a weight -> its dimension that Megatron splits. Of an MLP's weights, "w", every second one is split by rows."""


def megatron(tensor_axes: int) -> Peer:
    """Columns, then rows, over the last axes of the mesh; the batch over the others."""

    def plan(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
        kept = len(mesh.axis_names) - tensor_axes
        rows, columns = mesh.axis_names[:kept], mesh.axis_names[kept:]
        degree = prod(mesh.shape[name] for name in columns)

        def place(path: Any, a: Any) -> NamedSharding:
            name = str(getattr(path[-1], "key", ""))
            layer = next((key.idx for key in reversed(path) if hasattr(key, "idx")), 0)
            dimension = 1 - layer % 2 if name == "w" else SPLIT_BY_MEGATRON.get(name)
            if dimension is None or a.ndim < 2 or a.shape[dimension] % degree:
                return lay(mesh, a.ndim, {})
            return lay(mesh, a.ndim, {dimension: columns})

        state = jax.tree_util.tree_map_with_path(place, arguments.state)
        return state, *lay_data(mesh, arguments, rows)

    return plan


ALL_PEERS: Mapping[str, Peer] = {
    **PEERS,
    "Megatron, all axes": megatron(3),
    "Megatron, 2 axes": megatron(2),
    "Megatron, 1 axis": megatron(1),
}
