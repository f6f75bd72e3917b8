"""Whether numbers are those of one device, to how many digits they can be, and who is right where they are not.

One device is wrong itself where MXNet computes in place what it must not (decision 38). So what differs from it is held against a
device that computes nothing in place, and then against the descriptions, executed with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import mxnet as mx
import numpy as np

from benchmarks.fuzz.reference import Results, run_alone, run_apart
from benchmarks.fuzz.sample import DOUBLE, FIXED, LABEL, Sample
from tdl_ops.mxnet import DESCRIPTIONS
from tofu.errors import TofuError
from tofu.graph import Graph
from tofu.mxnet.frontend.head_gradients import find_head
from tofu.tdl import interpret

CANCELLED = 1e-3
"""Below this share of a model's largest gradient, another one is held against that share: terms may cancel."""
PERTURBATION = 2.0**-50
ROUNDINGS = 300  # how many times farther than inputs that are off by PERTURBATION move it, a number may be
LOOSEST = 1e-6
SINGLE_PRECISION = 2.0**-24
BY_DESCRIPTIONS = "the descriptions"
FIRST_STEP = "step 0"
FLOORS = {"gradient": CANCELLED, "output": 0.0}


def find_differences(sample: Sample, found: Results, expected: Results, noise: Results | None = None) -> dict[str, str]:
    """What is off by more than the sample allows, in words."""
    gradients = max((size(v) for name, v in expected.items() if name.startswith("gradient")), default=0.0)
    problems = {}
    for name, value in found.items():
        if name not in expected:
            continue
        floor = FLOORS.get(name.split()[0], CANCELLED) * max(1.0, gradients)
        limit = sample.tolerance * max(size(expected[name]), floor)
        if noise is not None:
            limit = max(limit, min(ROUNDINGS * size(noise[name]), LOOSEST * max(size(expected[name]), floor)))
        wrong = differences(value, expected[name])
        if value.shape != expected[name].shape or not wrong.max(initial=0.0) <= limit:
            worst = np.unravel_index(np.argmax(wrong), wrong.shape) if wrong.size else ()
            cell = f"{name}{list(map(int, worst))}"
            values = f"{value[worst]!r} on the workers, {expected[name][worst]!r} on one device"
            problems[name] = f"{cell} is {values}; {int((wrong > limit).sum())} of {wrong.size} cells differ"
    return problems


def size(value: np.ndarray) -> float:
    """The largest magnitude of the numbers that are finite."""
    value = np.asarray(value, np.float64)
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def differences(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Cell by cell; none where both are infinite or no numbers, as random operators may have it; infinite where one alone is."""
    if found.shape != expected.shape:
        return np.array([np.inf])
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        wrong = np.abs(found - expected)
    return np.where(same, 0.0, np.where(np.isnan(wrong), np.inf, wrong))


def measure_noise(sample: Sample, expected: Results) -> Results:
    """How far the results on one device move when the inputs do by a rounding: they cannot be known to more digits than that."""
    largest = {name: np.zeros(value.shape) for name, value in expected.items()}
    for seed in range(3):
        draw = np.random.RandomState(seed)
        values = {
            name: value * (1 + PERTURBATION * draw.choice((-1, 1), value.shape)) if value.dtype == DOUBLE else value
            for name, value in sample.values.items()
            if not name.startswith(("given", FIXED, LABEL))
        }
        moved = run_alone(replace(sample, values={**sample.values, **values}))
        largest = {name: np.maximum(most, differences(moved[name], expected[name])) for name, most in largest.items()}
    return largest


def judge(sample: Sample, graph: Graph, found: Results, names: Collection[str]) -> tuple[str, Results]:
    """Who agrees with the workers about the first step's results that differ from one device, and what that one says; "" for nobody."""
    judges: dict[str, Callable[[], Results]] = {
        "one device that computes nothing in place": lambda: run_apart(sample),
        BY_DESCRIPTIONS: lambda: execute_descriptions(sample, graph),
    }
    first = {name: found[name] for name in names if name.endswith(FIRST_STEP)}
    for judge_name, run in judges.items():
        try:
            expected = run()
        except (TofuError, mx.MXNetError, ValueError, IndexError):
            continue
        if not first or not expected.keys() >= first.keys():
            continue
        # The limits of a clip, say, are numbers of single precision to MXNet, and of double precision to NumPy.
        rounding = {name: np.array(SINGLE_PRECISION * size(expected[name])) for name in first}
        if not find_differences(sample, first, expected, rounding if judge_name == BY_DESCRIPTIONS else None):
            return judge_name, expected
    return "", {}


def execute_descriptions(sample: Sample, graph: Graph) -> Results:
    """Outputs and gradients of the first step, by the descriptions of all operators. Raises TofuError for what none shows."""
    values: dict[int, np.ndarray] = {}
    for position, tensor in enumerate(graph.tensors):
        if tensor.name in sample.values:
            values[position] = sample.values[tensor.name]
        elif (output := find_head(tensor.name)) is not None:
            values[position] = sample.head_gradients[output]
    for operator in graph.operators:
        description = DESCRIPTIONS.get(operator.op)
        if description is None:
            raise TofuError(f"{operator.op} has no description.")
        shapes = [graph.tensors[output].shape for output in operator.outputs]
        inputs = [values[position] for position in operator.inputs]
        computed = interpret(description, dict(operator.attributes), inputs, shapes)
        values.update(zip(operator.outputs, computed, strict=True))
    results = {f"output {n}, step 0": values[position] for n, position in enumerate(graph.outputs)}
    for argument, position in graph.gradients.items():
        name = graph.tensors[argument].name
        results[f"gradient of {name}, step 0"] = values[position] + (sample.requests[name] == "add")
    return results
