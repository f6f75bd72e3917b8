from __future__ import annotations

import random
from collections import Counter

import numpy as np

from tofu import _core
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.search import Problem
from tofu.search.choices import REPLICATED, make_choices, name_choices
from tofu.search.cost import evaluate

Taken = Counter[tuple[str, str]]
"""(Operator name, axis) -> number of operators in earlier plans that are split along the axis."""


def random_plan(partition: Partition, seed: int, taken: Taken | None = None) -> Plan:
    """Return a random feasible plan. With `taken`, half of the choices take the axis that was used least.

    Tensors written in place are split like their operator, and carries like their last value.
    """
    problem, rng = partition.searched.problem, random.Random(seed)
    graph = problem.graph
    operators = np.array([_random_axes(problem, o, rng, taken) for o in range(len(graph.operators))], np.int32)
    tensors = np.array([_random_dimensions(problem, t, rng) for t in range(len(graph.tensors))], np.int32)
    for position, (operator, access) in enumerate(zip(graph.operators, problem.accesses, strict=True)):
        if operator.stateful:
            operators[position] = operators[operator.forward]
        if operator.leader is not None:
            operators[position] = operators[operator.leader]
        for slot in operator.mutates:
            dimension_of = {axis: d for d, row in enumerate(access.inputs[slot].rows) for axis, _ in row.terms}
            tensors[operator.inputs[slot]] = [dimension_of.get(axis, REPLICATED) for axis in operators[position]]
    for carry in graph.carries:
        tensors[carry.last] = tensors[carry.tensor]
    choices = make_choices(problem, operators, tensors)
    cost = evaluate(choices)
    named = name_choices(choices)
    dimensions = named.tensors
    if seed % 2:
        dimensions = {tensor.name: dimensions[tensor.name] for tensor in graph.tensors if not tensor.is_inner}
    return Plan(
        workers=partition.plan.workers,
        factors=problem.factors,
        tensors=dimensions,
        operators=named.operators,
        communication_bytes=cost.total_bytes,
        step_bytes=tuple(cost.round_bytes),
        worker_bytes=(),
        algorithm="random",
        optimality="unknown",
        fingerprint=partition.graph.fingerprint,
    )


def feasible_axes(partition: Partition, name: str) -> list[str | None]:
    problem = partition.searched.problem
    operator = problem.graph.operator_index[name]
    axes = problem.accesses[operator].axes
    return [None if axis == REPLICATED else axes[axis] for axis in _feasible(problem, "operator", operator, [])]


def _random_axes(problem: Problem, operator: int, rng: random.Random, taken: Taken | None) -> list[int]:
    op, names = problem.graph.operators[operator].op, problem.accesses[operator].axes
    choices: list[int] = []
    for _ in problem.factors:
        feasible = _feasible(problem, "operator", operator, choices)
        rng.shuffle(feasible)
        if taken is not None and rng.random() < 0.5:
            feasible.sort(key=lambda axis: taken[op, "" if axis == REPLICATED else names[axis]])
        choices.append(feasible[0])
        if taken is not None:
            taken[op, "" if choices[-1] == REPLICATED else names[choices[-1]]] += 1
    return choices


def _random_dimensions(problem: Problem, tensor: int, rng: random.Random) -> list[int]:
    choices: list[int] = []
    for _ in problem.factors:
        choices.append(rng.choice(_feasible(problem, "tensor", tensor, choices)))
    return choices


def _feasible(problem: Problem, kind: str, position: int, choices: list[int]) -> list[int]:
    return _core.feasible_choices(problem.native, list(problem.factors), kind, position, choices)
