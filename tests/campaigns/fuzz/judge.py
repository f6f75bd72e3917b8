"""Decide who is wrong if workers and one device differ. One device can be wrong where MXNet computes in place (decision 38)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from multiprocessing import ProcessError

import mxnet as mx
import numpy as np

from tdl_ops.mxnet import DESCRIPTIONS
from tests.campaigns.fuzz.operators import is_drawn
from tests.campaigns.fuzz.reference import STEPS, Results, run_alone, run_apart, value_of
from tests.campaigns.fuzz.sample import FuzzSample
from tofu.errors import TofuError
from tofu.graph import Graph, Operator
from tofu.mxnet.frontend.head_gradients import find_head
from tofu.tdl import interpret

CANCELLED = 1e-3
"""Gradients below this share of the largest one are compared relative to this share, since terms may cancel."""
PERTURBATION = {"float64": 2.0**-50, "float32": 2.0**-22, "float16": 2.0**-9}
ROUNDINGS = 300  # allowed error, divided by the change that a PERTURBATION of the inputs causes
LOOSEST = 1e-6
LEEWAY = 50  # largest allowed error, divided by the tolerance of the sample
DRAWS = 4  # safety factor, because other perturbations may change a number more
SINGLE_PRECISION = 2.0**-24
BY_DESCRIPTIONS = "the descriptions"
FIRST_STEP = "step 0"
FLOORS = {"gradient": CANCELLED, "output": 0.0}


def find_differences(
    sample: FuzzSample, found: Results, expected: Results, noise: Results | None = None
) -> dict[str, str]:
    gradients = max((size(v) for name, v in expected.items() if name.startswith("gradient")), default=0.0)
    problems = {}
    for name, value in found.items():
        if name not in expected:
            continue
        floor = FLOORS.get(name.split()[0], CANCELLED) * max(1.0, gradients)
        limit = sample.tolerance * max(size(expected[name]), floor)
        if noise is not None:
            loosest = max(LOOSEST, LEEWAY * sample.tolerance) * max(size(expected[name]), floor)
            limit = max(limit, min(ROUNDINGS * size(noise[name]), loosest), DRAWS * size(noise[name]))
        wrong = differences(value, expected[name])
        if value.shape != expected[name].shape or not wrong.max(initial=0.0) <= limit:
            worst = np.unravel_index(np.argmax(wrong), wrong.shape) if wrong.size else ()
            element = f"{name}{list(map(int, worst))}"
            values = f"{value[worst]!r} on the workers, {expected[name][worst]!r} on one device"
            problems[name] = f"{element} is {values}; {int((wrong > limit).sum())} of {wrong.size} elements differ"
    return problems


def size(value: np.ndarray) -> float:
    value = np.asarray(value, np.float64)
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def differences(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the difference of each element: 0 if both are NaN or the same infinity, infinity if only one is not finite."""
    if found.shape != expected.shape:
        return np.array([np.inf])
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        wrong = np.abs(found - expected)
    return np.where(same, 0.0, np.where(np.isnan(wrong), np.inf, wrong))


def measure_noise(sample: FuzzSample, expected: Results) -> Results:
    """Return how much a rounding of the inputs changes the results on one device."""
    largest = {name: np.zeros(value.shape) for name, value in expected.items()}
    for seed in range(3):
        draw = np.random.RandomState(seed)
        values = {
            name: _perturb(value, draw)
            for name, value in sample.values.items()
            if not name.startswith(("given", "label")) and value.dtype.kind == "f"
        }
        moved = run_alone(replace(sample, values={**sample.values, **values}))
        largest = {name: np.maximum(most, differences(moved[name], expected[name])) for name, most in largest.items()}
    return largest


def _perturb(value: np.ndarray, draw: np.random.RandomState) -> np.ndarray:
    moved = value * (1 + PERTURBATION[value.dtype.name] * draw.choice((-1, 1), value.shape))
    return moved.astype(value.dtype)


def judge(sample: FuzzSample, graph: Graph, found: Results, names: Collection[str]) -> tuple[str, Results]:
    """Return the name and results of the first judge that agrees with the workers. Return ("", {}) if none agrees."""
    first = {name: found[name] for name in names if name.endswith(FIRST_STEP)}
    judges: dict[str, Callable[[], Results]] = {
        "one device that computes nothing in place": lambda: run_apart(sample),
        BY_DESCRIPTIONS: lambda: execute_descriptions(sample, graph, first),
    }
    for judge_name, run in judges.items():
        try:
            expected = run()
        except (TofuError, mx.MXNetError, ProcessError, ValueError, IndexError):
            continue
        if not first or not expected.keys() >= first.keys():
            continue
        # Attributes such as the limits of clip have single precision in MXNet, and double precision in NumPy.
        rounding = {name: np.array(SINGLE_PRECISION * size(expected[name])) for name in first}
        if not find_differences(sample, first, expected, rounding if judge_name == BY_DESCRIPTIONS else None):
            return judge_name, expected
    return "", {}


def execute_descriptions(
    sample: FuzzSample,
    graph: Graph,
    names: Collection[str] | None = None,
    step: int = 0,
    known: Mapping[int, np.ndarray] | None = None,
) -> Results:
    places = {name: place for name, place in list_results(graph, step).items() if names is None or name in names}
    values = {**_list_given(sample, graph, step), **(known or {})}
    for operator in _find_needed(graph, places.values(), values):
        description = DESCRIPTIONS.get(operator.op)
        if description is None:
            raise TofuError(f"{operator.op} has no description.")
        shapes = [graph.tensors[output].shape for output in operator.outputs]
        inputs = [values[position] for position in operator.inputs]
        computed = interpret(description, dict(operator.attributes), inputs, shapes)
        values = {**dict(zip(operator.outputs, computed, strict=True)), **values}
    added = {f"gradient of {name}, step {step}" for name, request in sample.requests.items() if request == "add"}
    return {name: values[position] + (name in added) for name, position in places.items()}


def list_results(graph: Graph, step: int) -> dict[str, int]:
    outputs = {f"output {n}, step {step}": position for n, position in enumerate(graph.outputs)}
    gradients = graph.gradients.items()
    return outputs | {
        f"gradient of {graph.tensors[argument].name}, step {step}": place for argument, place in gradients
    }


def _list_given(sample: FuzzSample, graph: Graph, step: int) -> dict[int, np.ndarray]:
    given = {}
    for position, tensor in enumerate(graph.tensors):
        if tensor.name in sample.values:
            given[position] = value_of(sample, tensor.name, step)
        elif (output := find_head(tensor.name)) is not None:
            given[position] = sample.head_gradients[output]
    return given


def _find_needed(graph: Graph, wanted: Iterable[int], known: Collection[int]) -> list[Operator]:
    missing, needed = {*wanted}.difference(known), []
    for operator in reversed(graph.operators):
        if missing.intersection(operator.outputs):
            missing.update(set(operator.inputs).difference(known))
            needed.append(operator)
    return needed[::-1]


def follow_drawn(sample: FuzzSample, graph: Graph, found: Results) -> dict[str, np.ndarray | None]:
    """Return the expected values of results that depend on random numbers. None stands for unknown values."""
    drawing = [operator for operator in graph.operators if is_drawn(operator.op)]
    dependent = {position for operator in drawing for position in operator.outputs}
    for operator in graph.operators if drawing else ():
        if dependent.intersection(operator.inputs):
            dependent.update(operator.outputs)
    scored = (f"output {n}, scored" for n, position in enumerate(graph.outputs) if position in dependent)
    expected: dict[str, np.ndarray | None] = dict.fromkeys(scored)
    for step in range(STEPS):
        places = {name: place for name, place in list_results(graph, step).items() if name in found}
        values = {place: found[name] for name, place in places.items()}
        known = {}
        for operator in drawing:
            known |= _relate(sample, operator, _list_given(sample, graph, step), values)
        for name, place in places.items():
            if place in dependent:
                expected[name] = _execute_one(sample, graph, name, step, known)
    return expected


def _relate(
    sample: FuzzSample, operator: Operator, given: Mapping[int, np.ndarray], found: Mapping[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """Return the outputs that an operator's relation expects, by tensor. Return {} if they are unknown."""
    relation = sample.relations.get(operator.name)
    if relation is None or not given.keys() >= {*operator.inputs} or not found.keys() >= {*operator.outputs}:
        return {}
    related = relation(
        *(
            [values[place] for place in places]
            for values, places in ((given, operator.inputs), (found, operator.outputs))
        )
    )
    return {place: value for place, value in zip(operator.outputs, related, strict=True) if value is not None}


def _execute_one(
    sample: FuzzSample, graph: Graph, name: str, step: int, known: Mapping[int, np.ndarray]
) -> np.ndarray | None:
    try:
        return execute_descriptions(sample, graph, [name], step, known)[name]
    except TofuError:
        return None
