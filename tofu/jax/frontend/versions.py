"""Hide differences between JAX 0.6.2 and 0.12, and details of JAX's programs that have no public function."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax.experimental import layout as layouts
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

T = TypeVar("T")

BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
"""Parameters in which an equation may store the body of a call."""

CALLS = frozenset(
    (
        "pjit",  # jax.jit; "jit" since 0.7
        "jit",
        "call_hi_primitive",  # since 0.12
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
    ("bias_bwd", "bias_fwd", "copy", "copy_p", "name", "reshard", "sharding_constraint", "stop_gradient")
)
"""Primitives that return their operands unchanged. `bias_fwd` and `bias_bwd` only check limits of cuDNN's attention."""
THREADS_OF_A_DEVICE = 8
"""Threads that XLA gets for each virtual CPU device, because a device may wait in several collectives at once."""

_JAX = os.path.dirname(os.path.abspath(jax.__file__))
_LIBRARY_FOLDERS = tuple(
    folder + os.sep
    for folder in (_JAX, os.path.dirname(os.__file__), str(Path(__file__).parents[2]), sysconfig.get_path("scripts"))
)
_FROZEN_MODULE = "<frozen "
"""Prefix of the file names of Python's own modules, such as <frozen runpy>. A name such as <stdin> is the user's."""


def forget_sharding(value: Any) -> Any:
    """Convert an array or a `jax.ShapeDtypeStruct` to a `jax.ShapeDtypeStruct` without a sharding.

    Other values, such as Python numbers, are returned unchanged.
    """
    is_uneven = hasattr(value, "__jax_array__") and hasattr(value, "dtype")
    if not (hasattr(value, "sharding") or is_uneven):
        return value
    return jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=getattr(value, "weak_type", False))


def is_memory_kind(target: Any) -> bool:
    """Return True for a memory, such as `jax.memory.Space.Host`, and False for a device."""
    return type(target).__name__ in ("TransferToMemoryKind", "MemorySpace", "Space")


def is_constraint(equation: JaxprEqn) -> bool:
    """Return True if a JAX operation requests a sharding or device, as `jax.device_put` does.

    A `reshard` that splits nothing does not count.
    """
    name, params = equation.primitive.name, equation.params
    if name == "device_put":
        return any(target is not None and not is_memory_kind(target) for target in params["devices"])
    shardings = [params["dst_sharding"]] if name == "reshard" else []
    shardings += [*params.get("in_shardings", ()), *params.get("out_shardings", ())]
    return name == "sharding_constraint" or any(any(getattr(sharding, "spec", ())) for sharding in shardings)


def list_parameters(equation: JaxprEqn) -> dict[str, Any]:
    """Return the parameters of a JAX operation, with None in place of shardings."""
    return {name: None if name.endswith("sharding") else _as_tuples(value) for name, value in equation.params.items()}


def _as_tuples(value: Any) -> Any:
    """Replace a `range` by a tuple, also in a named tuple such as `lax.GatherDimensionNumbers`.

    Other containers stay unchanged.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_as_tuples, value))
    return tuple(value) if isinstance(value, range) else value


def list_donated(jaxpr: Jaxpr) -> list[int]:
    """Return the inputs that a step donates itself, because it is a `jax.jit(step, donate_argnums=...)`.

    A function that calls such a step, and returns other results, donates nothing: its caller may still need the inputs.
    """
    if len(jaxpr.eqns) != 1:
        return []
    (call,) = jaxpr.eqns
    results, flags = set(map(id, jaxpr.outvars)), call.params.get("donated_invars", ())
    donated = {id(variable) for variable, is_donated in zip(call.invars, flags, strict=False) if is_donated}
    if donated & results or not results.issuperset(map(id, call.outvars)):
        return []
    return [position for position, variable in enumerate(jaxpr.invars) if id(variable) in donated]


def as_closed(jaxpr: ClosedJaxpr | Jaxpr, constants: Sequence[Any] = ()) -> ClosedJaxpr:
    """Return a jaxpr (JAX's program) that contains its constants. If `jaxpr` already does, return it unchanged."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, constants)


def find_body(equation: JaxprEqn) -> ClosedJaxpr:
    """Return the jaxpr (JAX's program) that a call runs."""
    if equation.primitive.name == "call_hi_primitive":  # it has a function instead of a jaxpr
        return _trace_expansion(equation.params["_prim"])
    return as_closed(next(equation.params[name] for name in BODIES if name in equation.params))


def _trace_expansion(primitive: Any) -> ClosedJaxpr:
    def run(*flat: Any) -> list[Any]:
        return list(jax.tree.leaves(primitive.expand(*jax.tree.unflatten(primitive.in_tree, flat))))

    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in primitive.in_avals_flat]
    return jax.make_jaxpr(run)(*shapes)


def find_solver(equation: JaxprEqn, operands: Sequence[T]) -> tuple[ClosedJaxpr, list[T]]:
    """Return the solver of a `custom_linear_solve`, and the solver's operands."""
    counts = equation.params["const_lengths"]
    before = counts.matvec + counts.vecmat
    return equation.params["jaxprs"].solve, [*operands[before : before + counts.solve], *operands[sum(counts) :]]


def count_scanned(equation: JaxprEqn) -> tuple[int, int]:
    """Return the number of constants and the number of initial values that a `lax.scan` takes."""
    params = equation.params
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()  # since 0.12
    return len(constants), len(carried)


def find_platform(equation: JaxprEqn) -> int:
    """Return the index of the function that `lax.platform_dependent` calls on this machine.

    This JAX operation has one function for each platform, such as CPU and GPU.
    """
    cases = equation.params["platforms"]
    platforms = {jax.default_backend(), jax.devices()[0].platform}
    matching = (n for n, names in enumerate(cases) if names is not None and platforms.intersection(names))
    return next(matching, cases.index(None) if None in cases else 0)


def find_key_implementation(dtype: Any) -> str:
    """Return the name of the random generator, such as "threefry2x32", of an array of `jax.random.key`s."""
    return str(dtype._impl.name)


def find_scope(equation: JaxprEqn) -> str:
    """Return the scopes and transformations around an operation, such as "transpose(jvp(encoder))/attention".

    Empty transformations, such as "jvp()", are left out.
    """
    return _without_empty(str(equation.source_info.name_stack))


def is_transposed(equation: JaxprEqn) -> bool:
    """Return True if JAX's transposition created an operation. JAX 0.6 does not print it unless it is in a named scope."""
    name_stack = equation.source_info.name_stack
    elements = getattr(name_stack, "stack", ())
    return "transpose(" in str(name_stack) or any(
        type(element).__name__ == "Transform" and element.name == "transpose" for element in elements
    )


@lru_cache(4096)
def _without_empty(scope: str) -> str:
    count = 1
    while count:
        scope, count = re.subn(r"\w+\(\)", "", scope)
    return "/".join(filter(None, scope.split("/")))


@dataclass(frozen=True, repr=False)
class Line:
    """A line of the user's program. It is looked up when printed.

    `traceback` is JAX's record of the calls. If it has no line of the user's program, `enclosing` is printed.
    """

    traceback: Any = None
    enclosing: Line | None = None

    def find(self) -> str:
        """Return the line as "file:line", or "" if it is unknown."""
        return next(_list_lines(self.traceback), None) or ("" if self.enclosing is None else self.enclosing.find())

    def __repr__(self) -> str:
        return self.find() or "an unknown line"


UNKNOWN_LINE = Line()


def find_line(equation: JaxprEqn, enclosing: Line = UNKNOWN_LINE) -> Line:
    """Return the line of the user's program that created a JAX operation, or `enclosing` if it is unknown."""
    return Line(equation.source_info.traceback, enclosing)


def _list_lines(traceback: Any) -> Iterator[str]:
    for frame in traceback.frames if traceback is not None else ():
        path = os.path.abspath(frame.file_name)
        is_installed = any(folder in path for folder in ("site-packages", "dist-packages"))
        if not (is_installed or path.startswith(_LIBRARY_FOLDERS) or frame.file_name.startswith(_FROZEN_MODULE)):
            yield f"{frame.file_name}:{frame.line_num}"


@contextmanager
def use_default_promotion() -> Iterator[None]:
    """In the `with` block, use JAX's default rules for types and shapes, even if the user has set strict rules."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def shard_map(function: Any, mesh: Any, in_specs: Any, out_specs: Any, is_checked: bool = False) -> Any:
    """Return a function that runs `function` on each device's shards (`jax.shard_map`). It always runs under `mesh`.

    With `is_checked=True`, JAX must prove that replicas are equal. If it cannot, tracing raises TypeError or
    ValueError.
    """
    mapped = jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=is_checked)
    meshes: Any = jax.sharding if hasattr(jax.sharding, "use_abstract_mesh") else import_module("jax._src.mesh")  # 0.6

    def run(*arguments: Any) -> Any:
        with meshes.use_abstract_mesh(mesh.abstract_mesh), use_default_promotion():
            return mapped(*arguments)

    return run


def _find_varying_axes(value: Any) -> frozenset[str]:
    if not isinstance(value, jax.Array):
        return frozenset()
    type_: Any = jax.typeof(value)
    varying: frozenset[str] = type_.manual_axis_type.varying if hasattr(type_, "manual_axis_type") else type_.vma
    return varying


def vary(value: Any, axes: Iterable[str]) -> Any:
    """Tell JAX that a value differs between devices along some axes of the device grid."""
    new_axes = tuple(sorted({*axes} - _find_varying_axes(value)))
    if not new_axes:
        return value
    value = jax.numpy.asarray(value)
    return jax.lax.pcast(value, new_axes, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(value, new_axes)


def vary_alike(values: Sequence[Any]) -> list[Any]:
    """Tell JAX that all values may differ between devices, along the same axes of the device grid.

    These are the axes along which at least one value may differ. Without this, JAX refuses some operations.
    """
    axes = frozenset[str]().union(*map(_find_varying_axes, values))
    return [vary(value, axes) for value in values] if axes else list(values)


def all_gather(value: Any, axis_names: str | tuple[str, ...], dimension: int) -> Any:
    """Concatenate the shards of all devices along `dimension`. JAX then treats the result as equal on all devices."""
    if not _find_varying_axes(value):
        return jax.lax.all_gather(value, axis_names, axis=dimension, tiled=True)
    if hasattr(jax.lax, "all_gather_invariant"):
        return jax.lax.all_gather_invariant(value, axis_names, axis=dimension, tiled=True)
    return jax.lax.all_gather(value, axis_names, axis=dimension, tiled=True, to="invarying")


def is_of_jax(implementation: Any) -> bool:
    """Return True if a function that implements an operation is part of JAX."""
    module = getattr(getattr(implementation, "func", implementation), "__module__", None) or "jax"
    return module.partition(".")[0] in ("jax", "jaxlib")


def scatters_sums(devices: Sequence[Any]) -> bool:
    """Return True if `lax.psum_scatter` (JAX's reduce-scatter) computes correct sums on these devices.

    On CPUs under `jax.distributed`, some sums are wrong (seen with 0.6.2).
    """
    return devices[0].platform != "cpu" or not jax.distributed.is_initialized()


def reserve_threads() -> None:
    """Let JAX's compiler XLA start enough threads for virtual CPU devices.

    A device may need two threads at once. With too few threads, XLA ends the process ("Termination timeout"). Do
    nothing if JAX was used before or the variable `NPROC` is set.
    """
    device_flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    device_count = int(device_flag[1]) if device_flag else getattr(jax.config, "jax_num_cpu_devices", 1)
    if device_count > 1:
        os.environ.setdefault("NPROC", str(max(THREADS_OF_A_DEVICE * device_count, os.cpu_count() or 1)))


def in_double_precision() -> AbstractContextManager[None]:
    """Return a context that sets `jax_enable_x64` to True."""
    return in_precision(double=True)


def in_precision(double: bool) -> AbstractContextManager[None]:
    """Return a context that sets `jax_enable_x64` to `double`."""
    if bool(jax.config.jax_enable_x64) == double:  # the common case; entering a context takes a while
        return nullcontext()
    is_public = hasattr(jax, "enable_x64")  # since 0.12
    context: AbstractContextManager[None] = (
        jax.enable_x64(double) if is_public else import_module("jax.experimental").enable_x64(double)
    )
    return context


@contextmanager
def with_plain_tracebacks() -> Iterator[None]:
    """Turn off JAX's slow filtering of tracebacks in the `with` block."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", before)


def constrain_row_major(value: Any) -> Any:
    """Return a value that is stored in row-major order, as Fourier transforms on CPUs require."""
    layout = getattr(layouts, "DeviceLocalLayout", None) or layouts.Layout  # JAX 0.6 has the first
    return layouts.with_layout_constraint(value, layout(tuple(range(value.ndim))))
