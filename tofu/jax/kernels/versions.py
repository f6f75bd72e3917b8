"""Hide differences between JAX 0.6.2 and 0.12 in the equations of kernels and `shard_map`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeAlias

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, primitives

from tofu.jax.frontend.versions import as_closed, list_parameters

Spec: TypeAlias = tuple[tuple[str, ...], ...]
"""For each dimension of an array, the mesh axes along which it is divided."""
VARYING = frozenset(("pcast", "pvary"))
"""Primitives that mark a value as different along mesh axes, but compute nothing."""
ASSUMED_CUDNN = 91000
"""The version of cuDNN that Tofu plans for if cuDNN is not installed: 9.10."""


@dataclass(frozen=True)
class BlockSpecification:
    """The blocks into which a Pallas kernel divides an array.

    `sizes` is the shape of a block, with 0 for dimensions in which a block may begin anywhere. `index_map` converts a
    grid position to the position of a block.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    index_map: ClosedJaxpr


def read_blocks(mapping: Any) -> tuple[BlockSpecification, ...]:
    """Return the block specifications of all operands and results of a `pallas_call`."""
    return tuple(map(_read_block, mapping.block_mappings))


def _read_block(block: Any) -> BlockSpecification:
    index_map = block.index_map_jaxpr
    kinds = [(type(size).__name__, size) for size in block.block_shape]
    sizes = (size.block_size if kind == "Blocked" else int(kind == "Squeezed") for kind, size in kinds)
    shape = tuple(getattr(block, _find_array(block)).shape)
    return BlockSpecification(shape, tuple(sizes), as_closed(index_map, index_map.consts))


def _find_array(block: Any) -> str:
    return "array_aval" if hasattr(block, "array_aval") else "array_shape_dtype"  # JAX 0.6 has the second


def resize_grid(params: Mapping[str, Any], grid: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Return a `pallas_call`'s parameters with another grid and other shapes of arrays."""
    mapping = params["grid_mapping"]
    blocks = []
    for block, shape in zip(mapping.block_mappings, shapes, strict=True):
        resized = getattr(block, _find_array(block)).update(shape=shape)
        blocks.append(replace(block, **{_find_array(block): resized}))
    outputs = [
        aval.update(shape=shape)
        for aval, shape in zip(params["out_avals"], shapes[-mapping.num_outputs :], strict=True)
    ]
    resized_mapping: Any = mapping.replace(grid=tuple(grid), block_mappings=tuple(blocks))
    return {**params, "grid_mapping": resized_mapping, "out_avals": tuple(outputs)}


def find_kernel_name(params: Mapping[str, Any]) -> str:
    """Return the name of a Pallas kernel."""
    name = params.get("name") or getattr(params.get("name_and_src_info"), "name", "")
    return str(name or params["jaxpr"].debug_info.func_name or "kernel")


def read_shard_map(equation: JaxprEqn) -> tuple[ClosedJaxpr, dict[str, int], list[Spec], list[Spec]]:
    """Return the body of a `shard_map`, the shape of its device grid, and how operands and results are split."""
    params = equation.params
    manual = params.get("manual_axes", params.get("newly_manual_axes"))
    sizes = {name: size for name, size in params["mesh"].shape.items() if name in manual}
    body = as_closed(params["jaxpr"])
    closed = ClosedJaxpr(rewrite_jaxpr(body.jaxpr, _forget_varying), body.consts)
    inputs, outputs = (
        [_read_spec(spec, len(x.aval.shape), sizes) for spec, x in zip(params[name], variables, strict=True)]
        for name, variables in (("in_specs", equation.invars), ("out_specs", equation.outvars))
    )
    return closed, sizes, inputs, outputs


def _forget_varying(equation: JaxprEqn) -> list[JaxprEqn]:
    if equation.primitive.name == "psum_invariant":  # JAX cannot batch an invariant psum
        params = {"axis_index_groups": None, **equation.params}  # JAX 0.12 leaves this out
        return [equation.replace(primitive=primitives.psum_p, params=params)]
    if equation.primitive.name not in VARYING:
        return [equation]
    pairs = zip(equation.invars, equation.outvars, strict=True)
    return [equation.replace(primitive=primitives.copy_p, params={}, invars=[x], outvars=[y]) for x, y in pairs]


def rewrite_jaxpr(jaxpr: Jaxpr, rewrite: Callable[[JaxprEqn], Sequence[JaxprEqn]]) -> Jaxpr:
    """Replace each equation of a jaxpr (JAX's program) by `rewrite(equation)`, also in inner jaxprs such as loops."""
    (current,) = jax.make_jaxpr(jax.lax.neg)(0.0).jaxpr.eqns
    renewed: dict[Any, Any] = {}

    def renew(x: Any) -> Any:
        if isinstance(x, Literal):
            value = copy(x.val)
            getattr(value, "aval", None)  # in 0.12, the first access fixes the type, and so the mesh
            return Literal(value, _without_mesh(x.aval))
        if x not in renewed:
            renewed[x] = copy(x)
            renewed[x].aval = _without_mesh(x.aval)
        return renewed[x]

    def visit(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(rewrite_jaxpr(value.jaxpr, rewrite), value.consts)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(map(visit, value))
        if hasattr(value, "block_mappings"):  # a Pallas kernel: its index maps are jaxprs too
            blocks = []
            for mapping in value.block_mappings:
                aval, index_map = _without_mesh(mapping.transformed_block_aval), visit(mapping.index_map_jaxpr)
                blocks.append(replace(mapping, transformed_block_aval=aval, index_map_jaxpr=index_map))
            return value.replace(block_mappings=tuple(blocks))
        return rewrite_jaxpr(value, rewrite) if isinstance(value, Jaxpr) else value

    equations = []
    for eqn in jaxpr.eqns:
        params = {name: visit(value) for name, value in list_parameters(eqn).items()}
        for rewritten in rewrite(eqn.replace(params=params)):
            invars, outvars = (list(map(renew, variables)) for variables in (rewritten.invars, rewritten.outvars))
            equations.append(rewritten.replace(invars=invars, outvars=outvars, ctx=current.ctx))
    ends = {name: list(map(renew, getattr(jaxpr, name))) for name in ("constvars", "invars", "outvars")}
    return jaxpr.replace(eqns=equations, **ends)


def _without_mesh(aval: Any) -> Any:
    if isinstance(aval, jax.core.ShapedArray):
        return jax.core.ShapedArray(aval.shape, aval.dtype, weak_type=aval.weak_type)
    inner = getattr(aval, "inner_aval", None)
    return aval if type(inner) is not jax.core.ShapedArray else aval.update(inner_aval=_without_mesh(inner))


def replace_by_call(equation: JaxprEqn, body: ClosedJaxpr) -> JaxprEqn:
    """Return an equation that calls `body` in place of `equation`."""
    return equation.replace(primitive=primitives.closed_call_p, params={"call_jaxpr": body})


def _read_spec(spec: Iterable[Any], rank: int, sizes: Mapping[str, int]) -> Spec:
    named = [() if entry is None else entry if isinstance(entry, tuple) else (entry,) for entry in spec]
    named += [()] * (rank - len(named))
    return tuple(tuple(name for name in names if name in sizes) for names in named)


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Let JAX trace cuDNN's attention in the `with` block, even if cuDNN is not installed."""
    attention: Any = import_module("jax._src.cudnn.fused_attention_stablehlo")
    find_version = attention.check_cudnn_version
    if attention.cuda_versions is None:
        attention.check_cudnn_version = lambda: ASSUMED_CUDNN
    try:
        yield
    finally:
        attention.check_cudnn_version = find_version


def outside_mesh() -> AbstractContextManager[Any]:
    """Return a context in which no device grid (`jax.sharding.Mesh`) is set."""
    meshes = import_module("jax._src.mesh")
    context: AbstractContextManager[Any] = meshes.use_abstract_mesh(meshes.empty_abstract_mesh)
    return context
