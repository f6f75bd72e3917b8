"""Peers, which are shardings of a step's arguments: Megatron's, chosen by the names of weights, and XLA's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding

from tofu.jax.compare.peers import PEERS, Arguments, Peer, make_sharding, shard_batch
from tofu.search import factorize

SPLIT_BY_MEGATRON = {"q": 1, "k": 1, "v": 1, "o": 0, "up": 1, "down": 0, "embed": 0, "out": 1, "x": 1, "h": 1}
"""Name of a weight -> the dimension that Megatron splits. Every second weight "w" of an MLP is split by rows."""


def megatron(tensor_axes: int) -> Peer:
    """Return Megatron's peer. Weights are split over the last `tensor_axes` mesh axes, and the batch over the others.

    Weights are split by columns and by rows in turn.
    """

    def plan(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
        kept = len(mesh.axis_names) - tensor_axes
        rows, columns = mesh.axis_names[:kept], mesh.axis_names[kept:]
        degree = prod(mesh.shape[name] for name in columns)

        def place(path: Any, a: Any) -> NamedSharding:
            name = str(getattr(path[-1], "key", ""))
            layer = next((key.idx for key in reversed(path) if hasattr(key, "idx")), 0)
            dimension = 1 - layer % 2 if name == "w" else SPLIT_BY_MEGATRON.get(name)
            is_stacked = [getattr(key, "key", None) for key in path[-2:-1]] == ["blocks"]  # stacked layers of a scan
            dimension = None if dimension is None else dimension + is_stacked
            if dimension is None or a.ndim < 2 or a.shape[dimension] % degree:
                return make_sharding(mesh, a.ndim, {})
            return make_sharding(mesh, a.ndim, {dimension: columns})

        state = jax.tree_util.tree_map_with_path(place, arguments.state)
        return state, *shard_batch(mesh, arguments, rows)

    return plan


def list_peers(workers: int) -> Mapping[str, Peer]:
    count = len(factorize(workers))
    mixes = {"Megatron, all axes": megatron(count)}
    mixes |= {f"Megatron, {n} {'axis' if n == 1 else 'axes'}": megatron(n) for n in reversed(range(1, count))}
    return {**PEERS, **mixes}


def choose_by_xla(step: Callable[..., Any]) -> Peer:
    """Return XLA's auto-sharding, for TPUs only. It may shard each argument over any axes of the mesh."""

    def plan(mesh: Mesh, arguments: Arguments) -> tuple[Any, ...]:
        from jax._src.sharding_impls import AUTO  # it has no public name

        free = jax.jit(step, in_shardings=AUTO(mesh), out_shardings=AUTO(mesh))
        chosen: tuple[Any, ...] = free.lower(*arguments.all).compile().input_shardings[0]
        return chosen

    return plan
