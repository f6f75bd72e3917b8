"""Repeated layers are planned once: which are alike, what that costs, and what hints and proofs say of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.numpy_engine.backend import NumpyBackend
from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.steps import deep_perceptron
from tofu import core
from tofu.search import repeated_layers
from tofu.search.recurrence import NO_PARTS
from tofu.search.repeated_layers import LEAST_LAYERS, find_repeated_layers

TYING, APART, SHARING, SHARING_APART = (
    core.Engine(NumpyFrontEnd(), NumpyBackend(), core.Moves(ties_layers=tied, shares_regions=shared))
    for shared in (False, True)
    for tied in (True, False)
)


STATED = repeated_layers.LEAST_OPERATORS, LEAST_LAYERS, repeated_layers.PERIOD


def test_the_sizes_that_the_documents_state():
    assert STATED == (2000, 6, 2)


@pytest.fixture
def in_small_graphs(monkeypatch):
    monkeypatch.setattr(repeated_layers, "LEAST_OPERATORS", 0)


pytestmark = pytest.mark.usefixtures("in_small_graphs")


def plan(engine, graph, workers=4, **settings):
    observe = core.Observer()
    task = core.analyse_step(
        core.Source(graph), engine, core.Settings(workers=workers, cache=False, **settings), observe
    )
    return core.make_partition(task, observe)


def families(graph):
    """Sets of names of operators and tensors that are alike."""
    found = find_repeated_layers(graph)
    operators = {frozenset(graph.operators[o].name for o in family) for family in found.operators}
    return operators, {frozenset(graph.tensors[t].name for t in family) for family in found.tensors}


def named(pattern, layers):
    return frozenset(pattern.format(layer) for layer in layers)


def test_every_second_layer_is_alike_forward_and_backward():
    operators, tensors = families(deep_perceptron(10))
    of_layers = [family for family in operators if next(iter(family)).startswith("layer")]
    assert len(of_layers) == 2
    for family in of_layers:
        numbers = sorted(int(name.removeprefix("layer")) for name in family)
        assert {after - before for before, after in pairwise(numbers)} == {2}
        for pattern in ("activation{}", "d_activation{}", "d_layer{}"):
            assert named(pattern, numbers[1:-1]) <= next(f for f in operators if pattern.format(numbers[1]) in f)
        for pattern in ("weight{}", "bias{}", "d_layer{}.1"):
            assert named(pattern, numbers[1:-1]) <= next(f for f in tensors if pattern.format(numbers[1]) in f)


def test_few_layers_are_each_decided_for_itself():
    assert find_repeated_layers(deep_perceptron(LEAST_LAYERS - 1)) == NO_PARTS
    assert find_repeated_layers(deep_perceptron(LEAST_LAYERS + 2)) != NO_PARTS


def test_a_layer_that_differs_is_like_no_other():
    operators, tensors = families(deep_perceptron(16, odd=7))
    assert operators
    assert not any({"layer7", "d_layer7"} & family for family in operators)
    assert not any("weight7" in family for family in tensors)


@pytest.mark.parametrize("engines", [(TYING, APART), (SHARING, SHARING_APART)], ids=["fetches", "shared regions"])
@pytest.mark.parametrize("layers", [8, 11])
@pytest.mark.parametrize("batch", [160, 640])
def test_what_alternates_from_layer_to_layer_is_found(engines, layers, batch):
    """The best plan of a chain of equal products may alternate: layers that are two apart are alike in it."""
    tied, apart = (plan(engine, deep_perceptron(layers, batch=batch)) for engine in engines)
    assert apart.plan.optimality == "optimal"
    assert tied.plan.optimality == "optimal among plans that treat every second repeated layer alike"
    assert tied.plan.communication_bytes == apart.plan.communication_bytes


def test_the_ends_may_cost_a_little():
    """Where the first and the last layer would be split otherwise than those between them."""
    tied, apart = (plan(engine, deep_perceptron(8, batch=32)).plan.communication_bytes for engine in (TYING, APART))
    assert apart < tied < 1.1 * apart


def test_small_graphs_are_searched_as_they_are(monkeypatch):
    graph = deep_perceptron(8)
    monkeypatch.setattr(repeated_layers, "LEAST_OPERATORS", len(graph.operators) + 1)
    assert plan(TYING, graph).plan.optimality == "optimal"


def test_layers_that_are_alike_have_one_choice():
    made = plan(TYING, deep_perceptron(12), workers=8)
    for family in made.searched.problem.layers.tensors:
        assert len({made.plan.tensors[made.graph.tensors[t].name] for t in family}) == 1
    for family in made.searched.problem.layers.operators:
        assert len({made.plan.operators[made.graph.operators[o].name] for o in family}) == 1


def test_a_hint_for_one_layer_is_for_that_layer():
    graph = deep_perceptron(12)
    other = 1 - plan(TYING, graph).plan.tensors["weight5"][0]
    tied, apart = (plan(engine, graph, hints={"weight5": other}).plan for engine in (TYING, APART))
    assert tied.tensors["weight5"] == (other, other)
    assert (tied.tensors, tied.operators) == (apart.tensors, apart.operators)
    assert tied.optimality == apart.optimality == "optimal"


def test_a_hint_for_all_layers_leaves_them_alike():
    made = plan(TYING, deep_perceptron(12), hints={f"weight{layer}": 0 for layer in range(12)}).plan
    assert {made.tensors[f"weight{layer}"] for layer in range(12)} == {(0, 0)}
    assert made.optimality == "optimal among plans that treat every second repeated layer alike"


def test_only_an_engine_that_asks_for_it_ties_layers():
    observe = core.Observer()
    task = core.analyse_step(core.Source(deep_perceptron(12)), APART, core.Settings(workers=4), observe)
    assert task.problem.layers == NO_PARTS
