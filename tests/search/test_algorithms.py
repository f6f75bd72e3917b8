import itertools
import re
from dataclasses import replace
from fractions import Fraction

import mxnet as mx
import pytest

import tofu
from tests.models.paper import transformer
from tests.search.random_graphs import entangled_graph
from tofu import _core
from tofu.search import algorithms
from tofu.search.algorithms import ALGORITHMS, describe_gap
from tofu.search.cost import price
from tofu.search.solve import Proof
from tofu.search.topology import Arrangement


@pytest.fixture(scope="module")
def model():
    return transformer(1, 64, 4, 4, length=16, vocabulary=64)


def plan_of(model, **asked):
    return tofu.partition(model.symbol, ngpus=8, **asked, **model.shapes).plan


def test_the_exact_plan_is_better_and_proved(model):
    recursive, exact = plan_of(model, algorithm="recursive"), plan_of(model)  # the default
    assert (recursive.algorithm, recursive.optimality) == ("recursive", "each round optimal, given the rounds before")
    assert (exact.algorithm, exact.optimality) == ("exact", "optimal")
    assert exact.communication_bytes < recursive.communication_bytes


def test_a_proof_for_one_order_of_factors_is_no_proof_for_all(model, monkeypatch):
    exact, bounds = ALGORITHMS["exact"], {}

    def search_one_order(problem, hints, effort):
        solution = exact.run(problem, hints, effort)
        if problem.factors == (2, 3):
            solution = replace(solution, proofs=(Proof(solution.proofs[0].lower_bound // 2),))
        bounds[problem.factors] = solution.proofs[0].lower_bound
        return solution

    monkeypatch.setitem(algorithms.ALGORITHMS, "exact", replace(exact, run=search_one_order))
    plan = tofu.partition(model.symbol, ngpus=6, cache=False, **model.shapes).plan
    assert bounds[2, 3] < plan.communication_bytes == bounds[3, 2]
    assert plan.optimality != "optimal"


def test_the_distance_to_a_bound_is_rounded_up():
    result = _core.search_exact(entangled_graph(4, 3, (6, 8)).native(), [2, 2])
    found = sum(result.plan.round_bytes)
    assert found > 300
    for bound in range(1, found):
        words = re.fullmatch(r"within ([\d.]+) % of a proven lower bound", describe_gap(found, bound))
        percent = Fraction(words[1])
        assert bound * (1 + (percent - Fraction("0.01")) / 100) < found <= bound * (1 + percent / 100), bound


@pytest.mark.parametrize("algorithm", ["exact", "recursive", "spartan"])
def test_a_plan_that_moves_nothing_is_optimal(algorithm):
    net = mx.sym.Activation(mx.sym.Variable("data"), act_type="relu")
    asked = {"ngpus": 4, "for_training": False, "data": (64, 64)}
    plan = tofu.partition(net, algorithm=algorithm, **asked).plan
    assert (plan.communication_bytes, plan.optimality) == (0, "optimal")
    edited = replace(plan, optimality="", digest="")
    assert tofu.partition(net, plan=edited, **asked).plan.optimality == "optimal"


def dense_pair(width):
    data = mx.sym.Variable("data")
    net = mx.sym.FullyConnected(data, num_hidden=width, no_bias=True, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=512, no_bias=True, name="fc2")
    return mx.sym.LinearRegressionOutput(net, name="loss")


@pytest.mark.parametrize("algorithm", ["recursive", "exact"])
@pytest.mark.parametrize(("workers", "width", "best"), [(6, 256, (2, 3)), (12, 768, (2, 2, 3))])
def test_all_orders_of_the_factors_are_searched(algorithm, workers, width, best):
    asked = {"algorithm": algorithm, "data": (4, 512), "loss_label": (4, 512)}
    partition = tofu.partition(dense_pair(width), workers, **asked).planned()
    moved = {}
    for order in set(itertools.permutations(best)):
        problem = partition.searched.problem.arrange(Arrangement(order))
        moved[order] = price(ALGORITHMS[algorithm].solve(problem).choices)
    assert partition.plan.communication_bytes == min(moved.values()) == moved[partition.plan.factors]
    if algorithm == "exact":
        assert partition.plan.factors == best
        assert partition.plan.optimality == "optimal"
