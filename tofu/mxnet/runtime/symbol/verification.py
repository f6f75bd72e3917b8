"""Verify a user's model: run the model on one device and on the workers, and compare all results."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import mxnet as mx
import numpy as np

from tofu.compare.agreement import WIDER, Agreement
from tofu.compare.numbers import CANCELLED, CANCELLED_IN_FLOAT32, Array, Arrays
from tofu.errors import PlanError, ShapeError, TofuError, UnsupportedError, raise_together
from tofu.formatting import list_some
from tofu.mxnet.compare.comparison import compare_runs, excuse_defects, find_fixed, measure_traffic
from tofu.mxnet.compare.runs import Run, run_step
from tofu.mxnet.compare.symbols import CORRECTIONS, list_single, split_recurrences, widen_types, without_dropout
from tofu.mxnet.compare.values import draw_values, find_positions
from tofu.mxnet.frontend.head_gradients import copy_repeats
from tofu.mxnet.frontend.inference import list_declared_types
from tofu.mxnet.frontend.read_symbol import find_labels, read_training
from tofu.mxnet.frontend.recurrent_layers import draws_between_layers
from tofu.mxnet.runtime.symbol.arguments import read_grad_requests
from tofu.mxnet.runtime.symbol.batch_scaling import shrink_batch
from tofu.pipeline import Partition
from tofu.validation import show

TYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
MOST_TOLERANCE = {"float64": 1e-6, "float32": 1e-2}
"""Upper limit of the tolerance, for each type."""
MOST_LETTERS = 120
LIMITS = "docs/limits.md"
ROUNDING_MULTIPLE = 4.0
"""The tolerance is this times the change of the results if the last bit of every input changes."""

Report = Callable[[str], None]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class _Stages:
    report: Report
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        self.report(stage)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


@dataclass(frozen=True)
class _RunSetup:
    symbol: Any
    context: Any
    shapes: Shapes
    dtype: str
    values: Arrays
    requests: Mapping[str, str]
    trains: bool
    output_names: Sequence[str]

    @property
    def dtypes(self) -> dict[str, Any]:
        return {name: value.dtype for name, value in self.values.items()}

    def run(self, symbol: Any, values: Arrays) -> Run:
        return run_step(
            symbol,
            self.shapes,
            values,
            self.requests,
            self.context,
            trains=self.trains,
            adds_apart=symbol is self.symbol,
            output_names=self.output_names,
        )

    def run_one_device(self) -> Run:
        return self.run(self.symbol, self.values)


def verify_symbol(
    partitioned: Any,
    shapes: Shapes,
    *,
    values: Mapping[str, Any] | None,
    grad_req: Any,
    dtype: str | None,
    seed: int,
    report: Report,
) -> Agreement:
    """Run a partitioned model on one device and on the workers, and compare the results.

    For the arguments, see `PartitionedSymbol.verify`. `report` is called with the name of each stage.
    """
    # If several outputs are the same array, one device would only use the gradient of the last output.
    model, user_values = copy_repeats(partitioned.whole), _read_values(values)
    _check_arguments(partitioned, model, user_values, dtype)
    shapes, user_values, notes = shrink_batch(model, shapes, user_values, partitioned.contexts)
    stages = _Stages(report)
    with stages.timed("planning"):
        partitioned.plan_for(shapes)
    _note_dropout(model, notes)
    single_precision_operators = list_single(model)
    for run_type in (dtype,) if dtype else TYPES:
        try:
            setup = _prepare_run(partitioned, model, shapes, run_type, user_values, grad_req, seed)
            replanned = _plan_alike(partitioned, setup, notes)
            with stages.timed("one device"):
                device_run = setup.run_one_device()
        except (mx.base.MXNetError, UnsupportedError, ShapeError) as error:
            if run_type == TYPES[-1] or dtype:
                raise
            notes.append(f"in float32, since MXNet has no float64 for it: {_shorten_error(error)}")
            continue
        with stages.timed(f"{len(partitioned.contexts)} workers"):
            workers_run = setup.run(replanned, setup.values)
        is_mixed = bool(single_precision_operators) and run_type == TYPES[0]
        mixed_note = [f"in float64 except {list_some(single_precision_operators)}"] if is_mixed else []
        is_wider = replanned.plan.communication_bytes > partitioned.plan.communication_bytes
        wider_note = [WIDER] if is_wider and run_type == TYPES[0] else []
        run_notes = [*notes, *mixed_note, *wider_note]
        agreement = _compare_results(setup, replanned.planned(), device_run, workers_run, run_notes, stages)
        # Rounding may explain differences that were excused.
        if (agreement.agrees and not agreement.excused) or not is_mixed or dtype:
            return agreement
        notes.append(f"in float32, since MXNet rounds to it in {list_some(single_precision_operators)}")
    raise AssertionError("the last type returns or raises")


def _note_dropout(model: Any, notes: list[str]) -> None:
    _, dropouts = without_dropout(model)
    if dropouts:
        names = f"{', '.join(dropouts[:4])}{' ...' * (len(dropouts) > 4)}"
        notes.append(f"dropout is off (p=0) in {names}: each worker draws its own")


def _shorten_error(error: Exception) -> str:
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
    if isinstance(value, mx.nd.NDArray):
        return np.asarray(value.asnumpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy before 1.24 only warns if rows differ in length
        try:
            return np.asarray(value)
        except (ValueError, TypeError, Warning):
            return None


def _check_arguments(partitioned: Any, model: Any, values: Mapping[str, Any], dtype: str | None) -> None:
    if partitioned.settings.workers == 1:
        raise PlanError("With ngpus=1 the model stays as it is: there is nothing to compare. Give ngpus=2 or more.")
    if dtype is not None and dtype not in TYPES:
        raise TofuError(f"dtype= must be one of {', '.join(TYPES)}, or left out, not {dtype!r}.")
    names = model.list_arguments() + model.list_auxiliary_states()
    raise_together(
        TofuError,
        "values= has names that are not in the model:",
        [name for name in values if name not in names],
    )


def _prepare_run(
    partitioned: Any, model: Any, shapes: Shapes, dtype: str, user_values: Arrays, grad_req: Any, seed: int
) -> _RunSetup:
    trains = partitioned.settings.for_training
    symbol = widen_types(model) if dtype == "float64" else model
    inputs, trained = read_training(model, shapes)
    integers = {name for name, code in list_declared_types(symbol, inputs).items() if code not in (0, 1, 2)}
    dtypes = {name: dtype for name in inputs if name not in integers} if dtype == "float64" else {}
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(trained, grad_req)
    labels, requests = find_labels(symbol), read_grad_requests(grad_req, symbol.list_arguments())
    requests = {name: "null" if name in labels or not trains else request for name, request in requests.items()}
    values = draw_values(symbol, inputs, dtypes, user_values, seed)
    if trains:  # as in the plan, since without dropout not all of them would be split
        symbol = split_recurrences(symbol, inputs, dtypes, draws_between_layers)
    symbol, _ = without_dropout(symbol)
    return _RunSetup(symbol, partitioned.contexts[0], inputs, dtype, values, requests, trains, model.list_outputs())


def _plan_alike(partitioned: Any, setup: _RunSetup, notes: list[str]) -> Any:
    settings = replace(partitioned.settings, cache=False, strict_plan=False)
    with_plan = replace(settings, plan=partitioned.plan, hints=None, topology=None, memory_limit=None)
    with_hints = replace(with_plan, plan=None, hints={**partitioned.plan.tensors, **partitioned.plan.operators})
    differentiated = [name for name, request in setup.requests.items() if request != "null"]
    updated = [name for name in differentiated if name not in setup.shapes]
    problems = []
    for new_settings in (with_plan, with_hints, settings):
        replanned = type(partitioned)(setup.symbol, new_settings, partitioned.contexts)
        try:
            replanned.compile_for(setup.shapes, setup.dtypes, differentiated, updated)
        except PlanError as error:
            if new_settings is settings:
                raise
            problems.append(f"planned again in {setup.dtype}: {_shorten_error(error)}")
        else:
            notes += problems[:1] if new_settings is settings else []
            return replanned
    raise AssertionError("the last attempt returns or raises")


def _compare_results(
    setup: _RunSetup, partition: Partition, device_run: Run, workers_run: Run, notes: list[str], stages: _Stages
) -> Agreement:
    cancelled = CANCELLED if setup.dtype == "float64" else CANCELLED_IN_FLOAT32
    tolerance = TOLERANCE[setup.dtype]
    comparison = compare_runs(partition, workers_run, device_run, cancelled)
    for correct, mistake in CORRECTIONS:
        if comparison.largest <= tolerance and not comparison.not_finite:
            break
        corrected_setup = replace(setup, symbol=correct(setup.symbol, setup.shapes, setup.dtypes))
        if corrected_setup.symbol.tojson() == setup.symbol.tojson():
            continue
        with stages.timed("one device again"):
            corrected_run = corrected_setup.run_one_device()
            corrected = compare_runs(partition, workers_run, corrected_run, cancelled)
        if names := find_fixed(comparison, corrected, tolerance):
            notes.append(f"one device has wrong numbers in {list_some(names)}: {mistake} ({LIMITS}).")
            notes.append("The comparison uses one device without this mistake.")
            setup, device_run, comparison = corrected_setup, corrected_run, corrected
    if comparison.largest > tolerance:
        with stages.timed("one device again"):
            rounded_run = setup.run(setup.symbol, _move_last_bits(setup))
        rounding = compare_runs(partition, rounded_run, device_run, cancelled).largest
        tolerance = min(max(tolerance, ROUNDING_MULTIPLE * rounding), MOST_TOLERANCE[setup.dtype])
        notes.append(f"one device differs by {rounding:.1e} from itself when the last bit of its numbers changes")
    comparison = excuse_defects(partition, comparison, tolerance)
    return Agreement(
        workers=partition.plan.workers,
        dtype=setup.dtype,
        shapes=setup.shapes,
        training=comparison.training,
        inference=comparison.inference,
        tolerance=tolerance,
        traffic=measure_traffic(partition, workers_run, setup.trains),
        excused=comparison.excused,
        notes=tuple(notes),
        seconds=stages.seconds,
    )


def _move_last_bits(setup: _RunSetup) -> Arrays:
    positions = find_positions(setup.symbol, setup.shapes, setup.dtypes)
    generator = np.random.RandomState(0)
    changed = dict(setup.values)
    for name, value in setup.values.items():
        if name not in positions and value.dtype.kind == "f":
            last_bit = np.finfo(value.dtype.name).eps * generator.choice((-1, 1), value.shape)
            changed[name] = (value.astype(np.float64) * (1 + last_bit)).astype(value.dtype)
    return changed
