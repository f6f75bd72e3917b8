from dataclasses import replace
from itertools import pairwise

import pytest

from tests.numpy_engine.backend import NumpyBackend
from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.runs import analyse_graph, partition_graph
from tests.numpy_engine.steps import deep_perceptron
from tofu import core
from tofu.search import find_strategies, repeated_layers
from tofu.search.problem import Problem
from tofu.search.repeated_layers import LEAST_LAYERS, find_repeated_layers

TYING, APART, SHARING, SHARING_APART = (
    core.Engine(NumpyFrontEnd(), NumpyBackend(), core.TransferRules(ties_layers=tied, shares_regions=shared))
    for shared in (False, True)
    for tied in (True, False)
)


@pytest.fixture
def in_small_graphs(monkeypatch):
    monkeypatch.setattr(repeated_layers, "LEAST_OPERATORS", 0)


pytestmark = pytest.mark.usefixtures("in_small_graphs")


def find_families(graph):
    found = find_repeated_layers(graph, find_strategies(graph, NumpyFrontEnd()))
    operators = {frozenset(graph.operators[o].name for o in family) for family in found.operators}
    return operators, {frozenset(graph.tensors[t].name for t in family) for family in found.tensors}


def name_layers(pattern, layers):
    return frozenset(pattern.format(layer) for layer in layers)


def test_every_second_layer_is_tied():
    operators, tensors = find_families(deep_perceptron(10))
    of_layers = [family for family in operators if next(iter(family)).startswith("layer")]
    assert len(of_layers) == 2
    for family in of_layers:
        numbers = sorted(int(name.removeprefix("layer")) for name in family)
        assert {after - before for before, after in pairwise(numbers)} == {2}
        for pattern in ("activation{}", "d_activation{}", "d_layer{}"):
            assert name_layers(pattern, numbers[1:-1]) <= next(f for f in operators if pattern.format(numbers[1]) in f)
        for pattern in ("weight{}", "bias{}", "d_layer{}.1"):
            assert name_layers(pattern, numbers[1:-1]) <= next(f for f in tensors if pattern.format(numbers[1]) in f)


def test_layers_are_tied_less_and_less_unless_they_are_always_tied():
    problem = analyse_graph(deep_perceptron(10), 4, TYING).problem
    for always_ties, periods in ((False, [1, 2, None]), (True, [1])):
        listed = replace(problem, always_ties=always_ties).list_attempts({}, {})
        assert [attempt.period if attempt.layers.operators else None for attempt in listed] == periods
    weights = {f"weight{layer}": [layer % 2] * 2 for layer in range(10)}
    alternating = {problem.graph.tensor_index[name]: choices for name, choices in weights.items()}
    for always_ties, periods in ((False, [2, None]), (True, [2])):
        listed = replace(problem, always_ties=always_ties).list_attempts({}, alternating)
        assert [attempt.period if attempt.layers.operators else None for attempt in listed] == periods


@pytest.mark.parametrize("period", [1, 2, 3])
def test_the_first_and_last_layers_are_tied_to_the_others(period):
    graph = deep_perceptron(12)
    found = find_repeated_layers(graph, find_strategies(graph, NumpyFrontEnd()), period)
    families = {frozenset(graph.tensors[t].name for t in family) for family in found.tensors}
    assert {name_layers("weight{}", range(first, 12, period)) for first in range(period)} <= families


def test_a_different_layer_is_not_tied():
    operators, tensors = find_families(deep_perceptron(16, odd=7))
    assert operators
    assert not any({"layer7", "d_layer7"} & family for family in operators)
    assert not any("weight7" in family for family in tensors)


@pytest.mark.parametrize("engines", [(TYING, APART), (SHARING, SHARING_APART)], ids=["fetches", "shared regions"])
@pytest.mark.parametrize(("layers", "batch"), [(8, 640), (11, 160)])
def test_alternating_plans_are_found(engines, layers, batch):
    """Layers two apart are tied, so plans may alternate."""
    tied, apart = (partition_graph(deep_perceptron(layers, batch=batch), 4, engine) for engine in engines)
    assert apart.plan.optimality == "optimal"
    assert tied.plan.optimality == "optimal among plans that treat every second repeated layer alike"
    assert tied.plan.communication_bytes == apart.plan.communication_bytes
    for family in tied.searched.problem.layers.tensors:
        assert len({tied.plan.tensors[tied.graph.tensors[t].name] for t in family}) == 1


def test_tying_the_first_and_last_layer_costs_a_little():
    tied, apart = (
        partition_graph(deep_perceptron(16, batch=32), 4, engine).plan.communication_bytes for engine in (TYING, APART)
    )
    assert apart < tied < 1.1 * apart


@pytest.mark.parametrize(
    ("largest", "optimality"), [(1, "optimal among plans that treat each repeated layer alike"), (0, "optimal")]
)
def test_a_search_that_is_too_large_ties_all_layers_or_none(monkeypatch, largest, optimality):
    make_graph = Problem.search_graph.fget

    def fail(problem):
        if problem.layers.operators and problem.period > largest:
            raise RuntimeError("too large")
        return make_graph(problem)

    monkeypatch.setattr(Problem, "search_graph", property(fail))
    assert partition_graph(deep_perceptron(8), 4, TYING).plan.optimality == optimality


def test_small_graphs_are_not_tied(monkeypatch):
    graph = deep_perceptron(8)
    monkeypatch.setattr(repeated_layers, "LEAST_OPERATORS", len(graph.operators) + 1)
    assert partition_graph(graph, 4, TYING).plan.optimality == "optimal"
    assert find_families(deep_perceptron(LEAST_LAYERS - 1)) == (set(), set())


def test_a_hint_for_one_layer_unties_it():
    graph = deep_perceptron(12)
    other = 1 - partition_graph(graph, 4, TYING).plan.tensors["weight5"][0]
    tied, apart = (partition_graph(graph, 4, engine, hints={"weight5": other}).plan for engine in (TYING, APART))
    assert tied.tensors["weight5"] == (other, other)
    assert (tied.tensors, tied.operators) == (apart.tensors, apart.operators)
    assert tied.optimality == apart.optimality == "optimal"
