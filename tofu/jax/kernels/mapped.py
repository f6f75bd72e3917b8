"""A `shard_map` within a step, as what it computes on one device.

Its body runs once for each device of its mesh. Under `jax.vmap`, with a batch axis for each axis of the mesh, it computes the same numbers:
`psum` becomes a sum over a batch axis. The step then names no devices, and the plan decides what runs where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from tofu.errors import UnsupportedError
from tofu.jax.frontend.versions import read_shard_map


def inline_shard_map(equation: Any, line: object) -> ClosedJaxpr:
    """Return what an equation of `shard_map` computes, without devices.

    Raise UnsupportedError if its body does something that `jax.vmap` cannot batch.
    """
    body, sizes, specs_in, specs_out = read_shard_map(equation)

    def run(*operands: Any) -> list[Any]:
        blocks = [_divide(x, spec, sizes) for x, spec in zip(operands, specs_in, strict=True)]
        mapped: Any = jaxpr_as_fun(body)
        for axis, size in reversed(sizes.items()):
            mapped = jax.vmap(mapped, axis_name=axis, axis_size=size)
        return [_join(x, spec, sizes) for x, spec in zip(mapped(*blocks), specs_out, strict=True)]

    structs = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in equation.invars]
    try:
        return jax.make_jaxpr(run)(*structs)
    except Exception as error:
        # JAX says in many ways that something has no batching rule, or that a name is unknown to it.
        raise UnsupportedError(
            f"The shard_map at {line} cannot be read as a function of whole arrays: {str(error).strip().splitlines()[0]}. Write its body "
            'for one device, or describe the function around it, as in @tofu.jax.describe("b _, b _ -> b _") (docs/jax.md, Kernels).'
        ) from error


def _divide(array: Any, spec: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Any:
    """An array as blocks: with a dimension in front for each axis of the mesh."""
    shape: list[int] = []
    names: list[str | None] = []
    for extent, own in zip(array.shape, spec, strict=True):
        counts = [sizes[name] for name in own]
        shape += [*counts, extent // prod(counts)]
        names += [*own, None]
    front = [names.index(name) for name in sizes if name in names]
    blocks = jnp.transpose(jnp.reshape(array, shape), [*front, *(n for n, name in enumerate(names) if name is None)])
    for n, name in enumerate(sizes):
        if name not in names:
            blocks = jnp.repeat(jnp.expand_dims(blocks, n), sizes[name], n)
    return blocks


def _join(blocks: Any, spec: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Any:
    """An array of its blocks. Blocks along an axis that its specification does not name are alike, and the first is taken."""
    named = [name for names in spec for name in names]
    first = blocks[tuple(slice(None) if name in named else 0 for name in sizes)]
    kept = [name for name in sizes if name in named]
    order, shape = [], []
    for d, names in enumerate(spec):
        order += [*(kept.index(name) for name in names), len(kept) + d]
        shape.append(prod(sizes[name] for name in names) * first.shape[len(kept) + d])
    return jnp.reshape(jnp.transpose(first, order), shape)
