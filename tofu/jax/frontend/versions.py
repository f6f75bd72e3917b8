"""What differs between versions of JAX, and what of a jaxpr no public function tells, written for 0.6.2 to 0.12.

All of it stands here, but for equations of kernels (`tofu/jax/kernels/versions.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax.experimental import layout as layouts
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

T = TypeVar("T")

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
THREADS_OF_A_DEVICE = 8
"""What XLA gets for each virtual device of a CPU: one for each of so many collectives that a device may wait in."""

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


def reserve_threads() -> None:
    """Has XLA start enough threads for virtual devices of a CPU, if JAX was not used before, and `NPROC` says nothing else.

    XLA of 0.6.2 has a thread for each core or device, whichever are more. A device that comes to one collective in a loop and to another
    beside it waits in two, so that none may be left for a device that the others wait for. It then ends the process ("Termination
    timeout").
    """
    asked = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    count = int(asked[1]) if asked else getattr(jax.config, "jax_num_cpu_devices", 1)
    if count > 1:
        os.environ.setdefault("NPROC", str(max(THREADS_OF_A_DEVICE * count, os.cpu_count() or 1)))


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


@contextmanager
def with_plain_tracebacks() -> Iterator[None]:
    """Within it JAX does not filter the tracebacks of errors, which takes longer than finding most of them."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", before)


def constrain_row_major(value: Any) -> Any:
    """A value that lies in memory with its last dimension innermost: XLA's Fourier transforms on CPUs ask for that of what they read and
    write, and its partial programs do not always have it so.
    """
    layout = getattr(layouts, "DeviceLocalLayout", None) or layouts.Layout  # the first is 0.6's
    return layouts.with_layout_constraint(value, layout(tuple(range(value.ndim))))
