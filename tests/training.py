"""One training run on one device, and the same run partitioned: what the equality tests compare."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import mxnet as mx
import numpy as np
from models import Model

import tofu
from tofu import _core, _mxnet
from tofu.check import count_traffic
from tofu.partition import Partition, check_emitted
from tofu.plan import Plan
from tofu.runtime.sharded_executor import ShardedExecutor
from tofu.search import Choices, Problem

Arrays = dict[str, np.ndarray]
LEARNING_RATE = 0.01


@dataclass(frozen=True)
class Step:
    """The numbers of one training step: whole outputs and gradients."""

    outputs: list[np.ndarray]
    gradients: Arrays


def all_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    arguments, _, _ = model.symbol.infer_shape(**model.shapes)
    return dict(zip(model.symbol.list_arguments(), arguments, strict=True))


def input_names(model: Model) -> list[str]:
    return [name for name in model.symbol.list_arguments() if name in model.shapes or name.endswith("label")]


def random_values(model: Model, dtype: str, seed: int = 0) -> Arrays:
    """Values for all arguments: labels are classes, weights are uniform with variance 1 / fan-in, the rest is uniform."""
    rng = np.random.RandomState(seed)
    values = {}
    for name, shape in all_shapes(model).items():
        if name.endswith("label"):
            values[name] = rng.randint(0, model.classes, shape).astype(dtype)
        else:
            bound = np.sqrt(3 / np.prod(shape[1:])) if name.endswith("weight") else 0.5
            values[name] = rng.uniform(-bound, bound, shape).astype(dtype)
    return values


def run_single(model: Model, values: Mapping[str, np.ndarray], dtype: str, steps: int = 1) -> tuple[Step, Arrays]:
    """The first step on one device, and all weights after `steps` steps of gradient descent."""
    inputs = input_names(model)
    shapes = all_shapes(model)
    requests = {name: "null" if name in inputs else "write" for name in shapes}
    executor = model.symbol.simple_bind(
        mx.cpu(0), grad_req=requests, type_dict=dict.fromkeys(inputs, dtype), **{name: shapes[name] for name in inputs}
    )
    for name, value in values.items():
        executor.arg_dict[name][:] = value
    first = None
    for _ in range(steps):
        executor.forward(is_train=True)
        executor.backward()
        gradients = {name: executor.grad_dict[name] for name in shapes if name not in inputs}
        if first is None:
            first = Step([o.asnumpy() for o in executor.outputs], {n: g.asnumpy() for n, g in gradients.items()})
        for name, gradient in gradients.items():
            mx.nd.sgd_update(executor.arg_dict[name], gradient, lr=LEARNING_RATE, out=executor.arg_dict[name])
    assert first is not None
    weights = {name: executor.arg_dict[name].asnumpy() for name in shapes if name not in inputs}
    assert all(np.isfinite(weight).all() for weight in weights.values())  # else equality would show nothing
    return first, weights


def bind_partitioned(model: Model, workers: int, dtype: str, plan: Plan | None = None) -> ShardedExecutor:
    symbol = tofu.partition(model.symbol, workers, plan=plan)
    shapes = all_shapes(model)
    inputs = input_names(model)
    return tofu.bind(symbol, type_dict=dict.fromkeys(inputs, dtype), **{name: shapes[name] for name in inputs})


def run_partitioned(
    executor: ShardedExecutor, values: Mapping[str, np.ndarray], steps: int = 1
) -> tuple[Step, Arrays, int]:
    """The same as `run_single`, and the bytes that the kernels read from other workers in the first step."""
    for name, value in values.items():
        executor.variables[name].scatter(value)
    mx.nd.waitall()
    graph = executor.partition.graph
    names = [graph.tensors[position].name for position in graph.gradients]
    first, moved = None, 0
    for _ in range(steps):
        _mxnet.reset_counters()
        executor.forward(is_train=True)
        executor.backward()
        if first is None:
            mx.nd.waitall()
            moved = _mxnet.counters()["bytes_read_remote"]
            outputs = [executor.output(i).gather().asnumpy() for i in range(len(graph.outputs))]
            first = Step(outputs, {name: executor.gradient(name).gather().asnumpy() for name in names})
        for name in names:
            for weight, gradient in zip(executor.variables[name].arrays, executor.gradient(name).arrays, strict=True):
                mx.nd.sgd_update(weight, gradient, lr=LEARNING_RATE, out=weight)
    assert first is not None
    return first, {name: executor.variables[name].gather().asnumpy() for name in names}, moved


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest magnitude of the tensor; infinite where a number is missing."""
    if not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300))


def largest_error(found: Step, expected: Step) -> float:
    pairs = list(zip(found.outputs, expected.outputs, strict=True))
    pairs += [(found.gradients[name], expected.gradients[name]) for name in expected.gradients]
    return max(relative_error(a, b) for a, b in pairs)


def check_graph(partition: Partition) -> None:
    """The emitted graph keeps the checker's rules, and moves exactly the bytes of the plan."""
    check_emitted(partition.problem, partition.choices, partition.training)
    traffic = count_traffic(partition.training.symbol)
    assert traffic.remote_bytes == partition.plan.communication_bytes
    assert sum(partition.plan.step_bytes) == partition.plan.communication_bytes


def random_plan(partition: Partition, seed: int) -> Plan:
    """A random feasible plan: a random axis for each operator, a random dimension for each tensor, at every step."""
    problem, rng = partition.problem, random.Random(seed)
    operators = np.array(
        [_random_choice(problem, "operator", o, rng) for o in range(len(problem.graph.operators))], np.int32
    )
    for position, operator in enumerate(problem.graph.operators):
        if operator.stateful:
            operators[position] = operators[operator.forward]
    tensors = np.array([_random_choice(problem, "tensor", t, rng) for t in range(len(problem.graph.tensors))], np.int32)
    choices = Choices(np.concatenate([operators, problem.update_choices(tensors)]), tensors)
    cost = problem.evaluate(choices)
    return Plan(
        workers=partition.plan.workers,
        factors=problem.factors,
        tensors=problem.tensor_steps(choices),
        operators=problem.operator_steps(choices),
        communication_bytes=cost.total_bytes,
        step_bytes=tuple(cost.step_bytes),
        worker_bytes=(),
        algorithm="random",
        optimality="unknown",
        fingerprint=problem.graph.fingerprint,
    )


def _random_choice(problem: Problem, kind: str, position: int, rng: random.Random) -> list[int]:
    steps: list[int] = []
    for _ in problem.factors:
        steps.append(rng.choice(_core.feasible_choices(problem.native, list(problem.factors), kind, position, steps)))
    return steps
