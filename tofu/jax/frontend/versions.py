"""What differs between versions of JAX, and what of a jaxpr no public function tells: all of it stands here, written for 0.6.2 to 0.12."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import jax
from jax.experimental import layout as layouts
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, primitives

T = TypeVar("T")
Spec: TypeAlias = tuple[tuple[str, ...], ...]
"""For each dimension of an array, the axes of a mesh that divide it."""

BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
"""The parameters that may hold the body of a call."""

CALLS = frozenset(
    (
        "pjit",  # jax.jit; "jit" from 0.7 on
        "jit",
        "call_hi_primitive",  # of 0.12
        "closed_call",
        "core_call",
        "composite",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "custom_vmap_call",
    )
)
CHECKPOINTS = frozenset(("remat2", "remat", "checkpoint"))
PASSED_THROUGH = frozenset(
    (
        "bias_bwd",
        "bias_fwd",
        "copy",
        "copy_p",
        "name",
        "reshard",
        "sharding_constraint",
        "stop_gradient",
    )
)
"""Their results are their first operands. Those of a bias check what cuDNN's attention supports."""
VARYING = frozenset(("pcast", "pvary"))
"""What says along which axes of a mesh a value varies, and computes nothing."""

NEWER = ("empty", "log2", "one_minus_square", "ormqr", "polynomial", "stack", "tile", "unstack")
"""Primitives that are described and that came after 0.6.2, one after the other; 0.12 has them."""

THREADS_OF_A_DEVICE = 8
"""What XLA gets for each virtual device of a CPU: one for each of so many collectives that a device may wait in."""

ASSUMED_CUDNN = 91000
"""The version of cuDNN for which steps are planned where there is none: 9.10."""

_JAX = os.path.dirname(os.path.abspath(jax.__file__))
_NOT_THE_USERS = tuple(
    folder + os.sep for folder in (_JAX, os.path.dirname(os.__file__), str(Path(__file__).parents[2]))
)


def forget_sharding(value: Any) -> Any:
    """The shape and type of an array, or of its shape, wherever it lies; what has none is as it was."""
    is_uneven = hasattr(value, "__jax_array__") and hasattr(value, "dtype")
    if not (hasattr(value, "sharding") or is_uneven):
        return value
    return jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=getattr(value, "weak_type", False))


def is_memory_kind(target: Any) -> bool:
    """Return True if `jax.device_put` is asked for a kind of memory, wherever the array is: `TransferToMemoryKind`, later `Space`."""
    return type(target).__name__ in ("TransferToMemoryKind", "MemorySpace", "Space")


def list_lacking() -> frozenset[str]:
    """Return the described primitives that no step has here: those of later versions, and transfers between kinds of memory."""
    later = (name for name in NEWER if not hasattr(jax.lax, name) and not hasattr(jax.lax.linalg, name))
    return frozenset((*later, *(() if has_kinds_of_memory() else ("device_put",))))


def has_kinds_of_memory() -> bool:
    """Return True if the default device has more than one kind of memory. Kinds mean nothing else, and XLA for CPUs may fail on them."""
    return len(jax.devices()[0].addressable_memories()) > 1


def is_constraint(equation: JaxprEqn) -> bool:
    """Return True if the program asks for a sharding or a device: by a constraint, by `jax.device_put`, or for a function of `jax.jit`.
    Under a mesh with explicit axes JAX itself adds a `reshard` that splits nothing.
    """
    name, params = equation.primitive.name, equation.params
    if name == "device_put":
        return any(target is not None and not is_memory_kind(target) for target in params["devices"])
    asked = [params["dst_sharding"]] if name == "reshard" else []
    asked += [*params.get("in_shardings", ()), *params.get("out_shardings", ())]
    return name == "sharding_constraint" or any(any(getattr(one, "spec", ())) for one in asked)


def list_parameters(equation: JaxprEqn) -> dict[str, Any]:
    """Those of an equation, without what says how its result is to be split."""
    return {name: None if name.endswith("sharding") else value for name, value in equation.params.items()}


def find_body(equation: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]]:
    """The jaxpr that a call runs, and the values of its constants."""
    if equation.primitive.name == "call_hi_primitive":  # it has no jaxpr; its own function stands for it
        return _expand(equation.params["_prim"])
    body = next(equation.params[name] for name in BODIES if name in equation.params)
    return (body.jaxpr, body.consts) if isinstance(body, ClosedJaxpr) else (body, ())


def _expand(primitive: Any) -> tuple[Jaxpr, Sequence[Any]]:
    """The body of a primitive that says what it is made of, such as `jnp.searchsorted`'s."""

    def run(*flat: Any) -> list[Any]:
        made: list[Any] = jax.tree.leaves(primitive.expand(*jax.tree.unflatten(primitive.in_tree, flat)))
        return made

    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in primitive.in_avals_flat]
    closed = jax.make_jaxpr(run)(*shapes)
    return closed.jaxpr, closed.consts


def find_solver(equation: JaxprEqn) -> tuple[ClosedJaxpr, slice]:
    """What `custom_linear_solve` runs once it is differentiated, and which of its operands that takes before the right-hand sides."""
    counts = equation.params["const_lengths"]
    before = counts.matvec + counts.vecmat
    return equation.params["jaxprs"].solve, slice(before, before + counts.solve)


def count_scanned(equation: JaxprEqn) -> tuple[int, int]:
    """How many of a scan's operands are read whole in each run of its body, and how many are carried from run to run; they come first."""
    params = equation.params
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    whole, carried, _ = params["ft_in"].unpack()  # of 0.12
    return len(whole), len(carried)


def find_platform(equation: JaxprEqn) -> int:
    """Of the platforms that `lax.platform_dependent` was given, which one the devices are of; None among them is any other."""
    given = equation.params["platforms"]
    own = {jax.default_backend(), jax.devices()[0].platform}
    named = (n for n, names in enumerate(given) if names is not None and own.intersection(names))
    return next(named, given.index(None) if None in given else 0)


def find_key_implementation(dtype: Any) -> str:
    """The name of what random keys of this type are made by: `threefry2x32`. JAX tells it in public of arrays of keys alone."""
    name: str = dtype._impl.name
    return name


def find_scope(equation: JaxprEqn) -> str:
    """The named scopes and transformations in which an equation was made: `transpose(jvp(encoder))/attention`.

    A transformation of no scope is left out, as 0.6.2 does; 0.12 has `jvp()` there.
    """
    scope, count = str(equation.source_info.name_stack), 1
    while count:
        scope, count = re.subn(r"\w+\(\)", "", scope)
    return "/".join(filter(None, scope.split("/")))


@dataclass(frozen=True, repr=False)
class Line:
    """A line of the user's program. It is looked for when it is shown, as `file:line`: of nearly all equations it never is.

    `traceback`: JAX's, of what made an equation. `around`: the line of the call in which the equation stands, which is shown where JAX
    does not know its own.
    """

    traceback: Any = None
    around: Line | None = None

    def find(self) -> str:
        """The line as `file:line`, "" if JAX does not know it."""
        return next(_list_lines(self.traceback), None) or ("" if self.around is None else self.around.find())

    def __repr__(self) -> str:
        return self.find() or "an unknown line"


UNKNOWN_LINE = Line()


def find_line(equation: JaxprEqn, around: Line = UNKNOWN_LINE) -> Line:
    """The line of the user's program that made an equation, or else the one around it."""
    return Line(equation.source_info.traceback, around)


def _list_lines(traceback: Any) -> Iterator[str]:
    for frame in traceback.frames if traceback is not None else ():
        path = os.path.abspath(frame.file_name)
        if not path.startswith(_NOT_THE_USERS) and "site-packages" not in path:
            yield f"{frame.file_name}:{frame.line_num}"


def shard_map(function: Any, mesh: Any, in_specs: Any, out_specs: Any, is_checked: bool = False) -> Any:
    """`jax.shard_map`. With `is_checked` JAX shows that what is said to be whole on several devices is the same on all of them, and raises
    TypeError or ValueError where it cannot.
    """
    mapped = jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=is_checked)
    return within_mesh(mapped, mesh)


def find_varying(value: Any) -> frozenset[str]:
    """The axes of the mesh along which devices may have different values, where JAX takes note of that."""
    if not isinstance(value, jax.Array):
        return frozenset()
    type_: Any = jax.typeof(value)
    varying: frozenset[str] = type_.manual_axis_type.varying if hasattr(type_, "manual_axis_type") else type_.vma
    return varying


def vary(value: Any, axes: Iterable[str]) -> Any:
    """A value that devices may have different ones of along these axes, for all that JAX is told: the value that it was."""
    new = tuple(sorted({*axes} - find_varying(value)))
    if not new:
        return value
    value = jax.numpy.asarray(value)
    return jax.lax.pcast(value, new, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(value, new)


def vary_alike(values: Sequence[Any]) -> list[Any]:
    """The operands of a primitive, which wants them to vary along the same axes."""
    axes = frozenset[str]().union(*map(find_varying, values))
    return [vary(value, axes) for value in values] if axes else list(values)


def all_gather(value: Any, axis_names: str | tuple[str, ...], dimension: int) -> Any:
    """`lax.all_gather`, tiled, of which JAX knows that all devices along the axes have the same where it takes note of that."""
    if not find_varying(value):
        return jax.lax.all_gather(value, axis_names, axis=dimension, tiled=True)
    if hasattr(jax.lax, "all_gather_invariant"):
        return jax.lax.all_gather_invariant(value, axis_names, axis=dimension, tiled=True)
    return jax.lax.all_gather(value, axis_names, axis=dimension, tiled=True, to="invarying")


def is_of_jax(implementation: Any) -> bool:
    """Whether a primitive is implemented by JAX's own code, and not by Python of another library."""
    module = getattr(getattr(implementation, "func", implementation), "__module__", None) or "jax"
    return module.partition(".")[0] in ("jax", "jaxlib")


def within_mesh(function: Callable[..., T], mesh: Any) -> Callable[..., T]:
    """The function under `jax.set_mesh` of a mesh, whichever is set where it is called; versions before 0.7 have none that matters."""
    if not hasattr(jax.sharding, "use_abstract_mesh"):
        return function

    def run(*arguments: Any) -> T:
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return function(*arguments)

    return run


def scatters_sums(devices: Sequence[Any]) -> bool:
    """Whether `lax.psum_scatter` may be used. Of CPUs under `jax.distributed`, whose collectives are gloo's, it may not: what gloo is still
    sending it overwrites, and now and then sums are wrong (seen with 0.6.2).
    """
    return devices[0].platform != "cpu" or not jax.distributed.is_initialized()


def give_threads() -> None:
    """Has XLA start enough threads for virtual devices of a CPU, if JAX was not used before, and `NPROC` says nothing else.

    XLA of 0.6.2 has a thread for each core or device, whichever are more. A device that comes to one collective in a loop and to another
    beside it waits in two, so that none may be left for a device that the others wait for. It then ends the process ("Termination
    timeout").
    """
    asked = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    count = int(asked[1]) if asked else getattr(jax.config, "jax_num_cpu_devices", 1)
    if count > 1:
        os.environ.setdefault("NPROC", str(max(THREADS_OF_A_DEVICE * count, os.cpu_count() or 1)))


def outside_mesh() -> AbstractContextManager[Any]:
    """Within it, functions are traced as if no mesh was set, on workers too."""
    meshes = import_module("jax._src.mesh")
    context: AbstractContextManager[Any] = meshes.use_abstract_mesh(meshes.empty_abstract_mesh)
    return context


def in_double_precision() -> AbstractContextManager[None]:
    """Within it JAX's numbers may have 64 bits."""
    return in_precision(double=True)


def in_precision(double: bool) -> AbstractContextManager[None]:
    """Within it JAX's numbers may have 64 bits, or may not."""
    if bool(jax.config.jax_enable_x64) == double:  # most often, and entering takes a while
        return nullcontext()
    has_own = hasattr(jax, "enable_x64")  # as 0.12 does
    entered: AbstractContextManager[None] = (
        jax.enable_x64(double) if has_own else import_module("jax.experimental").enable_x64(double)
    )
    return entered


def lay_row_major(value: Any) -> Any:
    """A value that lies in memory with its last dimension innermost: XLA's Fourier transforms on CPUs ask for that of what they read and
    write, and its partial programs do not always have it so.
    """
    layout = getattr(layouts, "DeviceLocalLayout", None) or layouts.Layout  # the first is 0.6's
    return layouts.with_layout_constraint(value, layout(tuple(range(value.ndim))))


@dataclass(frozen=True)
class BlockSpecification:
    """Which block of an array a Pallas kernel gets. `sizes` are the block's, 0 where it does not begin at a multiple of its size."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    index_map: ClosedJaxpr


def read_blocks(mapping: Any) -> tuple[BlockSpecification, ...]:
    """The block specifications of a `pallas_call`'s operands and results."""
    return tuple(map(_read_block, mapping.block_mappings))


def _read_block(block: Any) -> BlockSpecification:
    index_map = block.index_map_jaxpr
    closed = index_map if isinstance(index_map, ClosedJaxpr) else ClosedJaxpr(index_map, index_map.consts)
    kinds = [(type(one).__name__, one) for one in block.block_shape]
    sizes = (one.block_size if kind == "Blocked" else int(kind == "Squeezed") for kind, one in kinds)
    return BlockSpecification(tuple(getattr(block, _find_array(block)).shape), tuple(sizes), closed)


def _find_array(block: Any) -> str:
    return "array_aval" if hasattr(block, "array_aval") else "array_shape_dtype"  # the second is 0.6's


def resize_grid(params: Mapping[str, Any], grid: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """The parameters of a `pallas_call` with another grid, and arrays of other shapes: operands, then results."""
    mapping = params["grid_mapping"]
    blocks = []
    for block, shape in zip(mapping.block_mappings, shapes, strict=True):
        array = getattr(block, _find_array(block))
        resized = array.update(shape=shape)
        blocks.append(replace(block, **{_find_array(block): resized}))
    outputs = [
        aval.update(shape=shape)
        for aval, shape in zip(params["out_avals"], shapes[-mapping.num_outputs :], strict=True)
    ]
    own: Any = mapping.replace(grid=tuple(grid), block_mappings=tuple(blocks))
    return {**params, "grid_mapping": own, "out_avals": tuple(outputs)}


def find_kernel_name(params: Mapping[str, Any]) -> str:
    """The name of a Pallas kernel: the one that `pallas_call` was given, or that of the body's function."""
    own = params.get("name") or getattr(params.get("name_and_src_info"), "name", "")
    return str(own or params["jaxpr"].debug_info.func_name or "kernel")


def read_shard_map(equation: JaxprEqn) -> tuple[ClosedJaxpr, dict[str, int], list[Spec], list[Spec]]:
    """The body of a `shard_map`, the sizes of the axes of its mesh that it divides, and the axes that each dimension of its operands and
    of its results is divided along.
    """
    params = equation.params
    manual = params.get("manual_axes", params.get("newly_manual_axes"))
    sizes = {name: size for name, size in params["mesh"].shape.items() if name in manual}
    body = params["jaxpr"]
    jaxpr, constants = (body.jaxpr, body.consts) if isinstance(body, ClosedJaxpr) else (body, ())
    closed = ClosedJaxpr(rewrite_jaxpr(jaxpr, _forget_varying), constants)
    inputs, outputs = (
        [_read_spec(spec, len(x.aval.shape), sizes) for spec, x in zip(params[name], variables, strict=True)]
        for name, variables in (("in_specs", equation.invars), ("out_specs", equation.outvars))
    )
    return closed, sizes, inputs, outputs


def _forget_varying(equation: JaxprEqn) -> list[JaxprEqn]:
    """An equation without what says along which axes of the mesh values vary."""
    if equation.primitive.name == "psum_invariant":  # the same sum, which JAX cannot batch if all devices add the same
        params = {"axis_index_groups": None, **equation.params}  # which 0.12 leaves out
        return [equation.replace(primitive=primitives.psum_p, params=params)]
    if equation.primitive.name not in VARYING:
        return [equation]
    pairs = zip(equation.invars, equation.outvars, strict=True)
    return [equation.replace(primitive=primitives.copy_p, params={}, invars=[x], outvars=[y]) for x, y in pairs]


def rewrite_jaxpr(jaxpr: Jaxpr, exchange: Callable[[JaxprEqn], Sequence[JaxprEqn]]) -> Jaxpr:
    """The jaxpr with other equations in place of each, in the bodies of its equations too, for evaluation under the mesh that is set now.

    Where it was traced, another mesh may have been set: equations and types keep that one, and JAX refuses to mix them.
    """
    (here,) = jax.make_jaxpr(jax.lax.neg)(0.0).jaxpr.eqns
    known: dict[Any, Any] = {}

    def renew(x: Any) -> Any:
        if isinstance(x, Literal) or not isinstance(x.aval, jax.core.ShapedArray):
            return x
        if x not in known:
            known[x] = copy(x)
            known[x].aval = jax.core.ShapedArray(x.aval.shape, x.aval.dtype, weak_type=x.aval.weak_type)
        return known[x]

    def visit(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(rewrite_jaxpr(value.jaxpr, exchange), value.consts)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(map(visit, value))
        if hasattr(value, "block_mappings"):  # of a Pallas kernel, whose index maps are jaxprs too
            maps = (replace(one, index_map_jaxpr=visit(one.index_map_jaxpr)) for one in value.block_mappings)
            return value.replace(block_mappings=tuple(maps))
        return rewrite_jaxpr(value, exchange) if isinstance(value, Jaxpr) else value

    equations = []
    for one in jaxpr.eqns:
        params = {name: visit(value) for name, value in list_parameters(one).items()}
        for other in exchange(one.replace(params=params)):
            invars, outvars = (list(map(renew, some)) for some in (other.invars, other.outvars))
            equations.append(other.replace(invars=invars, outvars=outvars, ctx=here.ctx))
    ends = {name: list(map(renew, getattr(jaxpr, name))) for name in ("constvars", "invars", "outvars")}
    return jaxpr.replace(eqns=equations, **ends)


def replace_by_call(equation: JaxprEqn, body: ClosedJaxpr) -> JaxprEqn:
    """A call of another body in place of an equation."""
    return equation.replace(primitive=primitives.closed_call_p, params={"call_jaxpr": body})


def _read_spec(spec: Iterable[Any], rank: int, sizes: Mapping[str, int]) -> Spec:
    """The axes of a mesh, of those that are divided, along which each dimension of an array is."""
    named = [() if one is None else one if isinstance(one, tuple) else (one,) for one in spec]
    named += [()] * (rank - len(named))
    return tuple(tuple(name for name in names if name in sizes) for names in named)


def without_cudnn() -> AbstractContextManager[None]:
    """Within it, `jax.nn.dot_product_attention(implementation="cudnn")` can be traced on a machine without cuDNN, to plan for others.

    JAX looks for cuDNN's version as it traces, and needs it for nothing but what versions support.
    """
    attention = import_module("jax._src.cudnn.fused_attention_stablehlo")
    return nullcontext() if attention.cuda_versions is not None else _assume_cudnn(attention)


@contextmanager
def _assume_cudnn(attention: Any) -> Iterator[None]:
    before = attention.check_cudnn_version
    attention.check_cudnn_version = lambda: ASSUMED_CUDNN
    try:
        yield
    finally:
        attention.check_cudnn_version = before
