"""Convert `shard_map` within a step to ordinary equations, so that Tofu can plan them.

The body of a `shard_map` runs once for each device. `jax.vmap` computes the same numbers, with a batch axis for each
axis of the device grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from tofu.errors import UnsupportedError
from tofu.jax.frontend.control_flow import list_bodies, walk_equations
from tofu.jax.frontend.versions import find_line
from tofu.jax.kernels.versions import outside_mesh, read_shard_map, replace_by_call, rewrite_jaxpr

AXIS_PARAMETERS = ("axes", "axis_name")
"""Parameters in which collectives name mesh axes."""


def inline_shard_map(equation: Any, line: object) -> ClosedJaxpr:
    """Convert a `shard_map` (code for each device) to a jaxpr (JAX's program) for one device.

    Both compute the same results. Raise UnsupportedError if `jax.vmap` cannot batch the body.
    """
    body, sizes, *specs = read_shard_map(equation)
    # An axis of one device needs no batch axis.
    named_axes = set(_list_named_axes(body.jaxpr))
    sizes = {axis: size for axis, size in sizes.items() if size > 1 or axis in named_axes}
    operand_specs, result_specs = (
        [[[n for n in names if n in sizes] for names in spec] for spec in each] for each in specs
    )

    def run(*operands: Any) -> list[Any]:
        blocks = [_divide_into_blocks(x, spec, sizes) for x, spec in zip(operands, operand_specs, strict=True)]
        mapped: Any = jaxpr_as_fun(body)
        for axis, size in reversed(sizes.items()):
            mapped = jax.vmap(mapped, axis_name=axis, axis_size=size)
        return [_join_blocks(x, spec, sizes) for x, spec in zip(mapped(*blocks), result_specs, strict=True)]

    structs = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in equation.invars]
    try:
        return jax.make_jaxpr(run)(*structs)
    except Exception as error:
        # JAX raises many kinds of errors for a missing batching rule or an unknown name.
        raise UnsupportedError(
            f"The shard_map at {line} cannot be read as a function of whole arrays: {str(error).strip().splitlines()[0]}. Write its body "
            'for one device, and describe the function around it, as in @tofu.jax.describe("b _, b _ -> b _") (docs/add-operator.md).'
        ) from error


def without_shard_maps(function: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """Return a function with the same results, but without `jax.shard_map` (code for each device)."""

    def run(*operands: Any) -> Sequence[Any]:
        structs = [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False)) for x in operands]
        with outside_mesh():
            closed = jax.make_jaxpr(lambda *values: list(function(*values)))(*structs)
            if not _has_shard_map(closed.jaxpr):
                return function(*operands)
            inlined = rewrite_jaxpr(closed.jaxpr, _inline_equation)
        rewritten = ClosedJaxpr(rewrite_jaxpr(inlined, lambda equation: [equation]), closed.consts)
        return list(jaxpr_as_fun(rewritten)(*operands))

    return run


def inline_in_bodies(equation: Any) -> Any:
    """Replace each `shard_map` in the inner programs of an equation, such as the branches of a `cond`."""
    if not any(_has_shard_map(body.jaxpr) for body in list_bodies(equation.params)):
        return equation

    def visit(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(visit, value))
        is_body = isinstance(value, ClosedJaxpr)
        return ClosedJaxpr(rewrite_jaxpr(value.jaxpr, _inline_equation), value.consts) if is_body else value

    return equation.replace(params={name: visit(value) for name, value in equation.params.items()})


def _inline_equation(equation: Any) -> list[Any]:
    if equation.primitive.name != "shard_map":
        return [equation]
    return [replace_by_call(equation, inline_shard_map(equation, find_line(equation)))]


def _has_shard_map(jaxpr: Jaxpr) -> bool:
    return any(equation.primitive.name == "shard_map" for equation in walk_equations(jaxpr))


def _list_named_axes(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in walk_equations(jaxpr):
        for value in (equation.params.get(name, ()) for name in AXIS_PARAMETERS):
            yield from value if isinstance(value, tuple) else (value,)


def _divide_into_blocks(array: Any, spec: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Any:
    shape: list[int] = []
    names: list[str | None] = []
    for extent, mesh_axes in zip(array.shape, spec, strict=True):
        counts = [sizes[name] for name in mesh_axes]
        shape += [*counts, extent // prod(counts)]
        names += [*mesh_axes, None]
    mesh_dimensions = [names.index(name) for name in sizes if name in names]
    order = [*mesh_dimensions, *(n for n, name in enumerate(names) if name is None)]
    blocks = jnp.transpose(jnp.reshape(array, shape), order)
    for n, name in enumerate(sizes):
        if name not in names:
            blocks = jnp.repeat(jnp.expand_dims(blocks, n), sizes[name], n)
    return blocks


def _join_blocks(blocks: Any, spec: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Any:
    named_axes = [name for names in spec for name in names]
    used_blocks = blocks[tuple(slice(None) if name in named_axes else 0 for name in sizes)]
    used_axes = [name for name in sizes if name in named_axes]
    order, shape = [], []
    for d, names in enumerate(spec):
        order += [*(used_axes.index(name) for name in names), len(used_axes) + d]
        shape.append(prod(sizes[name] for name in names) * used_blocks.shape[len(used_axes) + d])
    return jnp.reshape(jnp.transpose(used_blocks, order), shape)
