"""Table 1 and Figure 11: what solvers of others are given is what the search minimises, and the picture's tiles are the plan's parts."""

import random

import mxnet as mx
import pytest

from benchmarks.evaluation.partition_picture import draw, list_blocks, list_group_rows, list_tiles
from benchmarks.evaluation.search_table import Decisions
from benchmarks.models import rnn, wresnet
from benchmarks.models.model import Model
from benchmarks.shared.pairwise_solvers import SOLVERS
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


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_of_others_find_what_the_exact_search_finds(perceptron, solver):
    problem, decisions = perceptron
    exact = ALGORITHMS["exact"].solve(problem).exact
    assert exact.is_optimal
    assert decisions.solve(solver, 60) == sum(exact.plan.step_bytes) > 0


def test_states_are_the_partitions_of_all_tensors_of_each_group(perceptron):
    """Matrices can be cut in two ways in a step, and in three in two steps, whose order does not count. A product has its operands, its
    result and the gradients of these three; the loss three matrices, and two more in its lowered gradient that may stay whole as well.
    """
    _, decisions = perceptron
    assert decisions.count_states(1) == 2 * 2**6 + 2**3 * 3**2
    assert decisions.count_states(2) == 2 * 3**6 + 3**3 * 6**2


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
