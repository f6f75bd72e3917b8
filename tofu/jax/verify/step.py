"""Compare a step on several devices with the same step on one device."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tofu.compare.agreement import WIDER, Agreement
from tofu.compare.numbers import Difference, relative_error
from tofu.engine import Engine, Source
from tofu.errors import InternalError, TofuError
from tofu.formatting import format_bytes
from tofu.host.host_memory import read_free_bytes
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.frontend.names import name_arguments, name_leaves
from tofu.jax.frontend.read_step import read_step
from tofu.jax.frontend.static_leaves import Structure, flatten_arrays
from tofu.jax.frontend.versions import in_precision
from tofu.jax.hosts import list_devices
from tofu.jax.memory import predict_one_device
from tofu.jax.partitioned_step import PartitionedStep
from tofu.jax.planning import plan_step
from tofu.planning.settings import Settings

ROUNDING = {"float64": 1e-10, "float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}
"""The largest relative difference that rounding explains. It depends on the narrowest type in the step."""
OWN_ERRORS = 4.0
"""The allowed multiple of the change that rounded arguments cause on one device."""
MOST_ROUNDING = 100.0
"""No difference above this multiple of `ROUNDING` is allowed."""
INTEGER_LIMIT = 8
"""Random integers are below this number."""
ARGUMENTS_SHOWN = 4
"""The report shows the shapes of this many arguments, the largest ones."""
MEMORY_MULTIPLE = 4
"""A comparison needs this many times the memory of the step, for two runs and their results."""


def verify_step(
    step: Any, arguments: Sequence[Any], settings: Settings, engine: Engine, dtype: str | None = None, seed: int = 0
) -> Agreement:
    """Run a step once on one device and once on all devices, and compare every result.

    Parameters
    ----------
    step, arguments
        The step and its arguments. Shapes among the arguments are replaced by random arrays.
    settings, engine
        Settings and engine of the plan.
    dtype
        The type of all floating-point arguments: "float64" or "float32". By default, float64 if the step accepts it.
    seed
        Seed of the random numbers.

    Raises
    ------
    TofuError
        The step cannot be planned, or there is too little free memory.
    """
    start_time = time.monotonic()
    double, source, drawn_arguments = _read_in_widest_type(step, arguments, dtype, seed)
    needed_bytes, free_bytes = MEMORY_MULTIPLE * predict_one_device(source.native).needed_bytes, read_free_bytes()
    if needed_bytes > free_bytes:
        raise TofuError(
            f"A comparison needs about {format_bytes(needed_bytes)}, and {format_bytes(int(free_bytes))} of memory are free. Name smaller "
            "arguments: --args small_args."
        )
    with in_precision(double):
        partition = plan_step(source, settings, engine=engine)
        mesh = partition.training.make_mesh(list_devices(settings.workers))
        partitioned = PartitionedStep(step, partition, mesh)
        seconds = {"planning": time.monotonic() - start_time}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agreement = _compare(step, partitioned, drawn_arguments)
    if _is_wider(drawn_arguments, arguments):
        agreement = replace(agreement, notes=(WIDER, *agreement.notes))
    return replace(agreement, seconds={**seconds, "running": time.monotonic() - start_time - seconds["planning"]})


def _read_in_widest_type(
    step: Any, arguments: Sequence[Any], dtype: str | None, seed: int
) -> tuple[bool, Source, list[Any]]:
    is_enabled = bool(jax.config.jax_enable_x64)
    widest_first = [(True, "float64"), (is_enabled, None)]
    for double, drawn_dtype in widest_first if dtype is None else [(dtype == "float64", dtype)]:
        with in_precision(double):
            random = np.random.default_rng(seed)
            draw = partial(_draw, dtype=drawn_dtype, random=random)
            drawn_arguments = [jax.tree.map(draw, tree) for tree in arguments]
            try:
                return double, read_step(step, tuple(drawn_arguments)), drawn_arguments
            except Exception:  # the step itself names narrower types
                if drawn_dtype is None or dtype is not None:
                    raise
    raise InternalError("A step was read in no type.")


def _compare(step: Any, partitioned: PartitionedStep, arguments: Sequence[Any]) -> Agreement:
    plan = partitioned.plan
    expected, results, perturbed = (
        _run_on_one_device(step, arguments),
        partitioned(*arguments),
        _run_on_one_device(step, jax.tree.map(_perturb, arguments)),
    )
    leaves = zip(name_leaves("result", expected), *map(jax.tree.leaves, (results, expected, perturbed)), strict=True)
    arrays = [(name, *map(_as_numbers, values)) for name, *values in leaves if _is_number(values[1])]
    reason_by_result = {name: reason for name, _, y, z in arrays if (reason := _explain_incomparable(y, z))}
    arrays = [array for array in arrays if array[0] not in reason_by_result]
    differences = tuple(Difference("result", name, _find_error(x, y)) for name, x, y, _ in arrays)
    float_types = [x.dtype for x in jax.tree.leaves((arguments, expected)) if _is_float(x)]
    narrowest = str(min(float_types, key=_count_bits, default="float32"))
    rounding = ROUNDING.get(narrowest, ROUNDING["bfloat16"])
    rounding_error = max((_find_error(z, y) for _, _, y, z in arrays), default=0.0)
    tolerance = max(rounding, min(OWN_ERRORS * rounding_error, MOST_ROUNDING * rounding))
    xla_bytes = sum(count_traffic(partitioned.lower_leaves().compile().as_text(), plan.workers).bytes.values())
    note = f"the plan counts {plan.communication_bytes:,} bytes between workers, and the program that XLA compiled moves {xla_bytes:,.0f}"
    if xla_bytes < plan.communication_bytes:
        note += ", since XLA leaves out what need not move"
    shape_by_name = zip(name_arguments(step, arguments), map(np.shape, jax.tree.leaves(arguments)), strict=True)
    shapes = dict(sorted(shape_by_name, key=lambda item: -prod(item[1]))[:ARGUMENTS_SHOWN])
    return Agreement(plan.workers, narrowest, shapes, differences, (), tolerance, {}, reason_by_result, (note,), {})


def _is_wider(drawn_arguments: Sequence[Any], arguments: Sequence[Any]) -> bool:
    pairs = zip(jax.tree.leaves(list(drawn_arguments)), jax.tree.leaves(list(arguments)), strict=True)
    return any(
        _is_float(drawn) and drawn.dtype == jnp.float64 and drawn.dtype != getattr(original, "dtype", None)
        for drawn, original in pairs
    )


def _run_on_one_device(step: Any, arguments: Sequence[Any]) -> Any:
    arrays, tree = flatten_arrays(tuple(arguments), static_numbers=True)
    structures: list[Structure] = []

    def run(arrays: Sequence[Any]) -> list[Any]:
        results, structure = flatten_arrays(step(*tree.unflatten(arrays)), static_numbers=True)
        structures.append(structure)
        return results

    results = jax.jit(run)(arrays)
    return structures[-1].unflatten(results)


def _is_number(value: Any) -> bool:
    return hasattr(value, "dtype") or isinstance(value, (bool, int, float, complex))


def _explain_incomparable(expected: Any, perturbed: Any) -> str:
    if expected.size and not np.isfinite(expected).any():
        return "one device gives no numbers"
    if expected.dtype.kind not in "f" and not np.array_equal(expected, perturbed):
        return "integers or booleans that depend on rounding"
    return ""


def _find_error(value: Any, expected: Any) -> float:
    if value.shape != expected.shape:
        return inf
    is_tolerant = np.isfinite(expected) & (expected.dtype.kind == "f")
    if not np.array_equal(value[~is_tolerant], expected[~is_tolerant], equal_nan=expected.dtype.kind == "f"):
        return inf
    return relative_error(value[is_tolerant], expected[is_tolerant]) if is_tolerant.any() else 0.0


def _draw(leaf: Any, *, dtype: str | None, random: np.random.Generator) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), leaf.shape) if leaf.shape else jax.random.key(0)
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            high = 2 if leaf.dtype == bool else INTEGER_LIMIT
            return jnp.asarray(random.integers(0, high, leaf.shape), leaf.dtype)
        # An optimizer's averages of squares must not be negative.
        leaf = jnp.asarray(np.abs(random.normal(size=leaf.shape)) / 8, leaf.dtype)
    is_converted = dtype is not None and hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
    return jnp.asarray(leaf, dtype) if is_converted else leaf


def _perturb(leaf: Any) -> Any:
    if not _is_float(leaf):
        return leaf
    signs = np.random.default_rng(1).integers(0, 2, leaf.shape) * 2 - 1
    return jnp.asarray(leaf * (1 + jnp.asarray(signs, leaf.dtype) * jnp.finfo(leaf.dtype).eps), leaf.dtype)


def _is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def _count_bits(dtype: Any) -> int:
    return int(jnp.finfo(dtype).bits) * 100 + int(jnp.finfo(dtype).nmant)


def _as_numbers(leaf: Any) -> Any:
    if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag])
    return array if array.dtype.kind in "fiub" else array.astype(np.float64)  # such as bfloat16
