"""Verification of a user's model: it runs on one device and on the workers, and all results are compared."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import mxnet as mx
import numpy as np

from tofu.compare.agreement import WIDER, Agreement
from tofu.compare.numbers import CANCELLED, CANCELLED_IN_FLOAT32, Array
from tofu.errors import PlanError, ShapeError, TofuError, UnsupportedError, raise_together
from tofu.mxnet.compare import (
    CORRECTIONS,
    Arrays,
    Run,
    draw_values,
    find_positions,
    list_single,
    run_step,
    widen_types,
    without_dropout,
)
from tofu.mxnet.compare.comparison import compare_runs, excuse_defects, find_fixed, measure_traffic
from tofu.mxnet.frontend.head_gradients import copy_repeats
from tofu.mxnet.frontend.read_symbol import find_labels, read_training
from tofu.mxnet.runtime.symbol.arguments import read_grad_requests
from tofu.mxnet.runtime.symbol.batch_scaling import shrink_batch
from tofu.pipeline import Partition
from tofu.validation import show

TYPES = ("float64", "float32")
ROUNDING = {"float64": 1e-10, "float32": 1e-5}
MOST_ROUNDING = {"float64": 1e-6, "float32": 1e-2}
"""Largest tolerance, even if the results of one device are less certain."""
MOST_LETTERS = 120
MOST_NAMES = 4
LIMITS = "docs/limits.md"
OWN_ERRORS = 4.0
"""Tolerance, as a multiple of the difference on one device when the last bit of its input numbers changes."""

Report = Callable[[str], None]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class _RunSetup:
    symbol: Any
    shapes: Shapes
    dtype: str
    values: Arrays
    requests: Mapping[str, str]
    trains: bool

    def run(self, symbol: Any, context: Any, values: Arrays | None = None) -> Run:
        given = self.values if values is None else values
        is_single = symbol is self.symbol
        return run_step(symbol, self.shapes, given, self.requests, context, trains=self.trains, adds_apart=is_single)


def verify_symbol(
    partitioned: Any,
    shapes: Shapes,
    *,
    values: Mapping[str, Any] | None = None,
    grad_req: Any = "write",
    dtype: str | None = None,
    seed: int = 0,
    report: Report = lambda stage: None,
) -> Agreement:
    """Verify a partitioned symbol; see `PartitionedSymbol.verify`. `report` is called with the name of each stage."""
    # If several outputs are the same array, one device would only use the gradient of the last output.
    model, given = copy_repeats(partitioned.whole), _read_values(values)
    _check(partitioned, model, given, dtype)
    shapes, given, notes = shrink_batch(model, shapes, given, partitioned.contexts)
    seconds: dict[str, float] = {}
    with _timed(seconds, "planning", report):
        partitioned.plan_for(shapes)
    model = _without_dropout(model, notes)
    mixed = list_single(model)
    for tried in (dtype,) if dtype else TYPES:
        try:
            setting = _prepare(model, shapes, tried, given, grad_req, partitioned.settings.for_training, seed)
            bound = _plan_alike(partitioned, setting, notes)
            with _timed(seconds, "one device", report):
                single = setting.run(setting.symbol, partitioned.contexts[0])
        except (mx.base.MXNetError, UnsupportedError, ShapeError) as error:
            if tried == TYPES[-1] or dtype:
                raise
            notes.append(f"in float32, since MXNet has no float64 for it: {_shorten(error)}")
            continue
        with _timed(seconds, f"{len(partitioned.contexts)} workers", report):
            found = setting.run(bound, partitioned.contexts[0])
        is_mixed = bool(mixed) and tried == TYPES[0]
        own = [*notes, *([f"in float64 but for {_list(mixed)}"] if is_mixed else [])]
        is_wider = bound.plan.communication_bytes > partitioned.plan.communication_bytes
        own += [WIDER] if is_wider and tried == TYPES[0] else []
        agreement = _judge(setting, bound.planned(), single, found, partitioned.contexts[0], own, seconds, report)
        if (agreement.agrees and not agreement.excused) or not is_mixed or dtype:  # rounding may cause what was excused
            return agreement
        notes.append(f"in float32, since MXNet rounds to it in {_list(mixed)}")
    raise AssertionError("the last type returns or raises")


def _without_dropout(model: Any, notes: list[str]) -> Any:
    model, dropping = without_dropout(model)
    if dropping:
        names = f"{', '.join(dropping[:4])}{' ...' * (len(dropping) > 4)}"
        notes.append(f"dropout is off (p=0) in {names}: each worker draws its own")
    return model


def _shorten(error: Exception) -> str:
    first, *_, last = str(error).strip().splitlines() * 2
    line = last if first.startswith("Traceback") else first.rpartition("MXNet says: ")[2]
    return line if len(line) <= MOST_LETTERS else f"{line[:MOST_LETTERS]} ..."


def _read_values(values: Any) -> dict[str, Any]:
    if not isinstance(values or {}, Mapping):
        raise TofuError(f"values= maps names to arrays, for example values={{'data': array}}, not {show(values)}.")
    arrays = {name: _read_array(value) for name, value in (values or {}).items()}
    raise_together(
        TofuError,
        "values= takes NDArrays, or numbers that NumPy can convert to an array. These are neither:",
        [f"{n}={show(values[n])}" for n, array in arrays.items() if array is None or array.dtype.kind not in "biuf"],
    )
    return arrays


def _read_array(value: Any) -> Array | None:
    """Return the value as an array, or None if its rows differ in length."""
    if isinstance(value, mx.nd.NDArray):
        return np.asarray(value.asnumpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy before 1.24 only warns of such rows
        try:
            return np.asarray(value)
        except (ValueError, TypeError, Warning):
            return None


def _check(partitioned: Any, model: Any, given: Mapping[str, Any], dtype: str | None) -> None:
    if partitioned.settings.workers == 1:
        raise PlanError("With ngpus=1 the model stays as it is: there is nothing to compare. Give ngpus=2 or more.")
    if dtype is not None and dtype not in TYPES:
        raise TofuError(f"dtype= must be one of {', '.join(TYPES)}, or left out, not {dtype!r}.")
    names = model.list_arguments() + model.list_auxiliary_states()
    raise_together(
        TofuError,
        "values= has names that are not in the model:",
        [name for name in given if name not in names],
    )


def _prepare(
    model: Any, shapes: Shapes, dtype: str, given: Mapping[str, Any], grad_req: Any, trains: bool, seed: int
) -> _RunSetup:
    symbol = widen_types(model) if dtype == "float64" else model
    inputs, learned = read_training(model, shapes)
    arguments = symbol.list_arguments()
    integers = {name for name, code in _declared_types(symbol).items() if code not in (0, 1, 2)}
    dtypes = {name: dtype for name in inputs if name not in integers} if dtype == "float64" else {}
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(learned, grad_req)
    requests = read_grad_requests(grad_req, arguments)
    labels = find_labels(symbol)
    requests = {name: "null" if name in labels or not trains else request for name, request in requests.items()}
    values = draw_values(symbol, inputs, dtypes, given, seed)
    return _RunSetup(symbol, inputs, dtype, values, requests, trains)


def _declared_types(symbol: Any) -> dict[str, int]:
    return {
        name: int(own["__dtype__"]) for name, own in symbol.attr_dict().items() if int(own.get("__dtype__", -1)) >= 0
    }


def _plan_alike(partitioned: Any, setting: _RunSetup, notes: list[str]) -> Any:
    """Return the symbol of this setup, partitioned by the model's plan.

    If the symbol has additional operators, the plan's choices become hints. If these do not fit, it is planned again.
    """
    settings = replace(partitioned.settings, cache=False, strict_plan=False)
    planned = replace(settings, plan=partitioned.plan, hints=None, topology=None, memory_limit=None)
    pinned = replace(planned, plan=None, hints={**partitioned.plan.tensors, **partitioned.plan.operators})
    differentiated = [name for name, request in setting.requests.items() if request != "null"]
    updated = [name for name in differentiated if name not in setting.shapes]
    dtypes = {name: value.dtype for name, value in setting.values.items()}
    problems = []
    for tried in (planned, pinned, settings):
        bound = type(partitioned)(setting.symbol, tried, partitioned.contexts)
        try:
            bound.compile_for(setting.shapes, dtypes, differentiated, updated)
        except PlanError as error:
            if tried is settings:
                raise
            problems.append(f"planned again in {setting.dtype}: {_shorten(error)}")
        else:
            notes += problems[:1] if tried is settings else []
            return bound
    raise AssertionError("the last attempt returns or raises")


def _judge(
    setting: _RunSetup,
    partition: Partition,
    single: Run,
    found: Run,
    context: Any,
    notes: list[str],
    seconds: dict[str, float],
    report: Report,
) -> Agreement:
    cancelled = CANCELLED if setting.dtype == "float64" else CANCELLED_IN_FLOAT32
    tolerance = ROUNDING[setting.dtype]
    compared = compare_runs(partition, found, single, cancelled)
    for correct, mistake in CORRECTIONS:
        if compared.largest <= tolerance:
            break
        apart = replace(setting, symbol=correct(setting.symbol))
        if apart.symbol.tojson() == setting.symbol.tojson():
            continue
        with _timed(seconds, "one device again", report):
            other = apart.run(apart.symbol, context)
            fixed = compare_runs(partition, found, other, cancelled)
        if names := find_fixed(compared, fixed, tolerance):
            notes.append(f"one device has wrong gradients of {_list(names)}: {mistake} ({LIMITS}).")
            notes.append("The comparison uses one device without this mistake.")
            setting, single, compared = apart, other, fixed
    if compared.largest > tolerance:
        with _timed(seconds, "one device again", report):
            again = setting.run(setting.symbol, context, _move_last_bits(setting))
        own = compare_runs(partition, again, single, cancelled).largest
        tolerance = min(max(tolerance, OWN_ERRORS * own), MOST_ROUNDING[setting.dtype])
        notes.append(f"one device differs by {own:.1e} from itself when the last bit of its numbers changes")
    compared = excuse_defects(partition, compared, tolerance)
    return Agreement(
        workers=partition.plan.workers,
        dtype=setting.dtype,
        shapes=setting.shapes,
        training=compared.training,
        inference=compared.inference,
        tolerance=tolerance,
        traffic=measure_traffic(partition, found, setting.trains),
        excused=compared.excused,
        notes=tuple(notes),
        seconds=seconds,
    )


def _list(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if names[MOST_NAMES:] else "")


def _move_last_bits(setting: _RunSetup) -> Arrays:
    positions = find_positions(setting.symbol, setting.shapes, {n: v.dtype for n, v in setting.values.items()})
    generator = np.random.RandomState(0)
    moved: dict[str, Array] = {}
    for name, value in setting.values.items():
        if name in positions or value.dtype.kind != "f":
            moved[name] = value
        else:
            bit = np.finfo(value.dtype.name).eps * generator.choice((-1, 1), value.shape)
            moved[name] = (value.astype(np.float64) * (1 + bit)).astype(value.dtype)
    return moved


@contextmanager
def _timed(seconds: dict[str, float], stage: str, report: Report) -> Iterator[None]:
    report(stage)
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - started
