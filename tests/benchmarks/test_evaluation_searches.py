"""Table 1 and Figure 11: what solvers of others are given is what the search minimises, and the picture's tiles are the plan's parts."""

import itertools
import random

import mxnet as mx
import numpy as np
import pytest

from benchmarks.evaluation import search_table
from benchmarks.evaluation.decisions import Decisions
from benchmarks.evaluation.partition_picture import draw, list_blocks, list_group_rows, list_tiles
from benchmarks.evaluation.search_table import time_solver
from tests.models.paper import rnn, wresnet
from tests.models.paper.model import Model
from tests.shared.dominance import drop_dominated
from tests.shared.pairwise_solvers import FORBIDDEN, SOLVERS
from tofu.errors import PlanError
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate


def read(model, workers=4):
    return model.read(Settings(workers, cache=False)).problem


def build_perceptron(size=512):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=size, no_bias=True, name="a")
    net = mx.sym.FullyConnected(net, num_hidden=size, no_bias=True, name="b")
    shapes = {"data": (size, size), "loss_label": (size, size)}
    return Model("perceptron", mx.sym.LinearRegressionOutput(net, name="loss"), shapes)


@pytest.fixture(scope="module")
def perceptron():
    problem = read(build_perceptron())
    return problem, Decisions(problem, problem.coarse)


def test_tables_of_pairs_add_up_to_what_a_plan_moves():
    problem = read(rnn(2, 64, 16, time_steps=2, features=32, classes=16))
    decisions, draw_number = Decisions(problem, problem.coarse), random.Random(1)
    for _ in range(20):
        taken = {who: draw_number.randrange(len(own)) for who, own in decisions.domains.items()}
        summed = sum(int(table[taken[a], taken[b]]) for (a, b), table in decisions.tables.items())
        assert summed == evaluate(problem, decisions.choose(taken)).total_bytes > 0


@pytest.fixture(scope="module")
def normalized():
    """Statistics that are written in place go with the axes of their operator alone."""
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=False, name="norm")
    net = mx.sym.FullyConnected(net, num_hidden=16, no_bias=True, name="product")
    symbol = mx.sym.LinearRegressionOutput(net, name="loss")
    problem = read(Model("normalized", symbol, {"data": (512, 256), "loss_label": (512, 16)}))
    return problem, Decisions(problem, problem.coarse)


def test_pairs_are_forbidden_that_no_plan_can_have(normalized):
    problem, decisions = normalized
    draw_number, refused = random.Random(2), 0
    forbidding = {tensor for (_, tensor), table in decisions.tables.items() if (table == FORBIDDEN).any()}
    assert forbidding == {("tensor", decisions.classes[tensor]) for tensor in problem.graph.written_in_place}
    for _ in range(100):
        taken = {who: draw_number.randrange(len(own)) for who, own in decisions.domains.items()}
        found = [int(table[taken[a], taken[b]]) for (a, b), table in decisions.tables.items()]
        if FORBIDDEN in found:
            refused += 1
            with pytest.raises(PlanError, match="in place"):
                evaluate(problem, decisions.choose(taken))
        else:
            assert sum(found) == evaluate(problem, decisions.choose(taken)).total_bytes
    assert 0 < refused < 100


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", ["perceptron", "normalized"])
def test_solvers_of_others_find_what_the_exact_search_finds(request, model, solver):
    problem, decisions = request.getfixturevalue(model)
    exact = ALGORITHMS["exact"].solve(problem).exact
    assert exact.is_optimal
    for tables in (decisions.tables, decisions.reduced):
        assert time_solver(solver, tables, 60)[1].optimum == sum(exact.plan.step_bytes) > 0
    assert sum(t.size for t in decisions.reduced.values()) < sum(t.size for t in decisions.tables.values())


def test_rows_of_solvers_say_what_they_were_given_and_held(monkeypatch):
    problem = read(build_perceptron(64), 2)
    monkeypatch.setattr(search_table, "_read", lambda _: problem)
    monkeypatch.setattr(search_table, "run_cold", lambda work, *given: work(*given))
    of_highs, of_toulbar2 = search_table.time_solvers("perceptron", 60)
    assert of_highs.found == of_toulbar2.found
    assert 1 < of_highs.entries == of_toulbar2.entries <= of_highs.all_entries
    assert (
        2**20 < of_highs.held_bytes <= of_toulbar2.held_bytes < 2**37
    )  # of one process here, whose largest use only grows


def draw_tables(seed):
    """Four who each meet each, with pairs that cannot be."""
    numbers = np.random.RandomState(seed)
    sizes = dict(zip("abcd", numbers.randint(1, 5, 4).tolist(), strict=True))
    tables = {}
    for pair in itertools.combinations_with_replacement(sizes, 2):
        shape = [sizes[who] for who in pair]
        tables[pair] = np.where(numbers.rand(*shape) < 0.3, FORBIDDEN, 12 * numbers.randint(0, 9, shape))
    return sizes, tables


def list_costs(sizes, tables):
    """Of everything that can be chosen."""
    for taken in itertools.product(*map(range, sizes.values())):
        number = dict(zip(sizes, taken, strict=True))
        found = [int(table[number[a], number[b]]) for (a, b), table in tables.items()]
        if FORBIDDEN not in found:
            yield sum(found)


def test_without_dominated_choices_and_by_any_solver_the_least_cost_is_that_of_brute_force():
    reduced, possible = 0, 0
    for seed in range(40):
        sizes, tables = draw_tables(seed)
        least = min(list_costs(sizes, tables), default=None)
        if least is None:
            continue
        possible += 1
        smaller = drop_dominated(sizes, tables)
        left = {who: smaller[who, who].shape[0] for who in sizes}
        reduced += left != sizes
        assert min(list_costs(left, smaller)) == least
        for solve in SOLVERS.values():
            assert solve(sizes, tables, 60).optimum == solve(left, smaller, 60).optimum == least
    assert possible >= reduced >= 10


def test_solvers_that_are_stopped_say_what_they_have_and_what_they_proved():
    numbers = np.random.RandomState(0)
    sizes = dict.fromkeys(range(40), 6)
    tables = {pair: numbers.randint(0, 1000, (6, 6)) for pair in itertools.combinations(sizes, 2)}
    for solve in SOLVERS.values():
        stopped = solve(sizes, tables, 1)
        assert stopped.optimum is None
        assert 0 <= stopped.bound < (stopped.found or np.inf)


def test_states_are_the_partitions_of_all_tensors_of_each_group(perceptron):
    """Matrices can be cut in two ways in a step, and in three in two steps, whose order does not count. A product has its operands, its
    result and the gradients of these three; the loss four matrices, and two more in its lowered gradient that may stay whole as well.
    """
    _, decisions = perceptron
    assert decisions.count_states(1) == 2 * 2**6 + 2**4 * 3**2
    assert decisions.count_states(2) == 2 * 3**6 + 3**4 * 6**2


def test_tiles_of_a_tensor_cover_it_once_and_each_worker_has_one():
    problem = read(wresnet(50, 1, 8), 8)
    choices = ALGORITHMS["recursive"].solve(problem).choices
    blocks = list_blocks(problem, choices)
    assert [block.group for block in blocks] == [0, 1, 2, 3]
    for block in blocks:
        assert len(block.tensors) == 6
        for tensor in block.tensors:
            tiles = list(list_tiles(problem, choices, tensor))
            assert [worker for worker, *_ in tiles] == list(range(8))
            assert sum(width * height for *_, width, height in tiles) == pytest.approx(1)
            corners = {(round(left, 6), round(top, 6)) for _, left, top, _, _ in tiles}
            assert len(corners) == 8


def test_the_picture_is_drawn_and_groups_have_their_convolutions(tmp_path):
    problem = read(wresnet(50, 1, 8), 8)
    choices = ALGORITHMS["recursive"].solve(problem).choices
    draw(problem, choices, tmp_path / "partition.png")
    assert (tmp_path / "partition.png").read_bytes().startswith(b"\x89PNG")
    for row in list_group_rows(problem, choices):
        assert (
            0 < row.split_by_batch + row.split_by_channels + row.split_by_both <= 3 * row.blocks + 1
        )  # with the projection
        assert row.weights_gib + row.activations_gib > 0
