"""One model on one device and on several under many plans: what `equality.py` does in each of its processes.

The models and the runs are those of the equality tests. Every run is checked: outputs, gradients, weights and states against one device in
float64, the bytes that the kernels counted and those counted in the emitted graph against the plan's, and the emitted graph against the
checker's rules.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.models.applications import APPLICATIONS
from tests.models.classifiers import EXAMPLES
from tests.models.normalized import NORMALIZED, far_resnet_v2
from tests.models.plain import MODELS, Model, upsampling_cnn
from tests.models.recurrent import RECURRENT_MODELS
from tests.models.spatial import SPATIAL
from tests.models.zoo import GLUON_MODELS
from tests.shared.random_plans import random_plan
from tests.shared.training import (
    Arrays,
    bind_partitioned,
    check_graph,
    largest_error,
    permute_batch,
    random_values,
    run_partitioned,
    run_single,
    weight_error,
)
from tofu.compare import Numbers
from tofu.graph import Operator, Tensor
from tofu.lowering import find_lowering
from tofu.mxnet.lowerings import LOWERINGS
from tofu.pipeline import Partition
from tofu.plan import Plan

EXACT = "float64"
STEP_TOLERANCE, WEIGHT_TOLERANCE = 1e-10, 1e-8  # in float64
# How much farther from float64 than one device's own float32, and what is near enough.
FLOAT32_FACTOR, FLOAT32_FLOOR = 4.0, 1e-5
WINDOWED = ("Convolution", "Deconvolution", "Pooling")

Models = dict[str, Callable[[str], Model]]
"""Name -> the model in a type."""


def of_any_type(models: Mapping[str, Callable[[], Model]]) -> Models:
    """Models that are the same in every type."""
    return {name: lambda _, make=make: make() for name, make in models.items()}


_OTHERS = {"upsampling_cnn": upsampling_cnn, "far_resnet_v2": far_resnet_v2}
GROUPS: dict[str, Models] = {
    "small": of_any_type({**MODELS, **NORMALIZED, **_OTHERS, **SPATIAL}) | RECURRENT_MODELS,
    "zoo": GLUON_MODELS | of_any_type(EXAMPLES) | APPLICATIONS,
}
ALL_MODELS: Models = {name: build for group in GROUPS.values() for name, build in group.items()}


@dataclass(frozen=True)
class Case:
    """Some plans of one model in one type at one number of workers: the default one, then random ones of these seeds.

    Random plans run for `steps` training steps, the default plan for `default_steps`.
    """

    model: str
    dtype: str
    workers: int
    seeds: tuple[int, ...]
    has_default: bool
    steps: int
    default_steps: int

    @property
    def key(self) -> str:
        """What a result is found by."""
        return repr(self)

    def __str__(self) -> str:
        return f"{self.model}, {self.dtype}, {self.workers} workers"


@dataclass
class Result:
    """What the plans of a case showed; errors are the largest of all plans, relative to the largest magnitude of the tensor.

    `taken` counts the random plans that take an axis of an operator, with zeros for those that none takes.
    """

    plans: int = 0
    step_error: float = 0.0
    weight_error: float = 0.0
    own_error: float = 0.0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    taken: list[tuple[str, str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Reference:
    """One device's numbers in the highest precision that its kernels have, and how far they may be missed."""

    model: Model
    values: Arrays
    step: Numbers
    weights: Arrays
    step_limit: float
    weight_limit: float
    own_error: float


def run_reference(name: str, dtype: str, steps: int) -> Reference:
    """One device in float64, on the values of `dtype`; in float32 also in that type, with the batch in two orders, for the limits."""
    model = ALL_MODELS[name](dtype)
    exact_type = dtype if model.is_single_precision else EXACT
    values = random_values(model, dtype)
    exact_values = {name: value.astype(exact_type) for name, value in values.items()}
    step, weights = run_single(ALL_MODELS[name](exact_type), exact_values, exact_type, steps)
    if dtype == EXACT:
        return Reference(model, values, step, weights, STEP_TOLERANCE, WEIGHT_TOLERANCE, 0.0)
    own, own_weights = run_single(model, values, dtype, steps)
    permuted, permuted_weights = run_single(model, permute_batch(model, values), dtype, steps)
    own_error = max(largest_error(own, step), _gradient_error(permuted, step))
    own_weight_error = max(weight_error(own_weights, weights), weight_error(permuted_weights, weights))
    limits = (max(FLOAT32_FACTOR * error, FLOAT32_FLOOR) for error in (own_error, own_weight_error))
    return Reference(model, values, step, weights, *limits, own_error)


def _gradient_error(found: Numbers, expected: Numbers) -> float:
    return largest_error(Numbers({}, found.gradients), Numbers({}, expected.gradients))


def run_case(case: Case) -> tuple[Case, Result]:
    """All plans of a case; what goes wrong is among the result's problems."""
    started, result = time.perf_counter(), Result()
    try:
        _run_plans(case, result)
    except Exception as error:  # whatever it is, the other cases go on
        result.problems.append(f"no plan at all: {type(error).__name__}: {error}"[:1000])
    result.seconds = time.perf_counter() - started
    return case, result


def _run_plans(case: Case, result: Result) -> None:
    make_reference = cache(lambda steps: run_reference(case.model, case.dtype, steps))
    if case.has_default:
        _run_plan(result, "the default plan", case, make_reference(case.default_steps), None, case.default_steps)
    if case.seeds:
        _run_random_plans(case, result, make_reference(case.steps))


def _run_random_plans(case: Case, result: Result, reference: Reference) -> None:
    default = bind_partitioned(reference.model, case.workers, case.dtype)
    chosen: Counter[tuple[str, str]] = Counter()
    taken: Counter[tuple[str, str]] = Counter()
    for seed in case.seeds:
        plan = random_plan(default.partition, seed, chosen)
        partition = _run_plan(result, f"random plan {seed}", case, reference, plan, case.steps)
        if partition is not None:
            count_strategies(partition, taken)
    result.taken = [(op, axis, count) for (op, axis), count in sorted(taken.items())]


def _run_plan(
    result: Result, what: str, case: Case, reference: Reference, plan: Plan | None, steps: int
) -> Partition | None:
    """Train under one plan and enter in `result` how it went; the partition, if there was one."""
    result.plans += 1
    result.own_error = max(result.own_error, reference.own_error)
    try:
        executor = bind_partitioned(reference.model, case.workers, case.dtype, plan)
        check_graph(executor.partition)
        found, weights, moved = run_partitioned(executor, reference.values, steps)
    except Exception as error:  # whatever it is, the other plans go on
        result.problems.append(f"{what}: {type(error).__name__}: {error}"[:1000])
        return None
    errors = largest_error(found, reference.step), weight_error(weights, reference.weights)
    result.step_error, result.weight_error = max(result.step_error, errors[0]), max(result.weight_error, errors[1])
    if moved != executor.partition.plan.communication_bytes:
        result.problems.append(
            f"{what}: kernels read {moved} bytes, planned were {executor.partition.plan.communication_bytes}"
        )
    for kind, error, limit in zip(
        ("step", "weights"), errors, (reference.step_limit, reference.weight_limit), strict=True
    ):
        if not error <= limit:
            result.problems.append(f"{what}: {kind} off by {error:.1e}, allowed are {limit:.1e}")
    return executor.partition


def count_strategies(partition: Partition, taken: Counter[tuple[str, str]]) -> None:
    """Count the axes that the plan takes, once each, of the operators that can run in parts or read halos; the rest count 0."""
    searched = partition.searched.problem
    axes = {o.name: access.axes for o, access in zip(searched.graph.operators, searched.accesses, strict=True)}
    found, tensors = set(), partition.graph.tensors
    for operator in partition.graph.operators:
        label = describe_operator(operator, tensors)
        if label is not None:
            is_lowered = find_lowering(LOWERINGS, operator, tensors) is not None
            relevant = [axis for axis in axes[operator.name] if is_lowered or axis.startswith("y")]
            taken.update({(label, axis): 0 for axis in relevant})
            found.update((label, axis) for axis in partition.plan.operators[operator.name] if axis in relevant)
    taken.update(found)


def describe_operator(operator: Operator, tensors: Sequence[Tensor]) -> str | None:
    """A name for what strategies are counted by; None where the operator has neither a lowering nor halos."""
    attributes = operator.attributes
    if find_lowering(LOWERINGS, operator, tensors) is not None:
        return operator.op
    has_window = operator.op.endswith(WINDOWED) and "kernel" in attributes  # a pooled region has none
    if not has_window or attributes.get("global_pool") in ("True", "1"):
        return None
    dimensions = attributes["kernel"].count(",") + (not attributes["kernel"].rstrip(" )").endswith(","))
    details = [attributes[name] for name in ("pool_type", "pooling_convention") if name in attributes]
    return " ".join([operator.op, f"{dimensions}d", *details])
