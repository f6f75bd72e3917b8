"""Loops whose body is in the graph once. Carries move in each iteration. Tensors that the body only reads move once."""

from dataclasses import replace

import pytest

from tests.numpy_engine.front_end import ITEM_BYTES
from tests.search.written_steps import Writer, pose
from tofu.graph import Carry, TensorKind
from tofu.program import check_program, write_program
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate, price

ROWS, WIDTH = 128, 256


def make_loop(times):
    write = Writer()
    start = write.input("start", ROWS, WIDTH)
    weight = write.variable("weight", WIDTH, WIDTH)
    state = write.variable("state", ROWS, WIDTH, kind=TensorKind.CARRY)
    following = write.apply("tanh", write.apply("product", state, weight))
    for tensor in range(state, following + 1):
        write.tensors[tensor] = replace(write.tensors[tensor], times=times)
    last = write.variable("last", ROWS, WIDTH, kind=TensorKind.CARRY)
    write.outputs = [write.apply("tanh", last)]
    return replace(write.graph(), carries=(Carry(state, (start, following), last),))


def solve(times, **hints):
    problem = pose(make_loop(times))
    choices = ALGORITHMS["exact"].solve(problem, hints).choices
    moved = evaluate(choices).total_bytes
    program = write_program(choices)
    check_program(program, moved)
    return problem, choices, program


def test_carries_move_in_each_iteration_and_weights_once():
    hints = {"product0": ["i", "j"], "weight": [0, 0], "state": [0, 1], "start": [0, 1]}
    weight = 4 * (WIDTH - WIDTH // 4) * WIDTH // 2 * ITEM_BYTES
    state = 4 * ROWS // 2 * WIDTH // 2 * ITEM_BYTES
    for times in (1, 2, 7):
        assert solve(times, **hints)[2].remote_bytes == weight + times * state


def test_the_search_multiplies_bytes_by_iterations():
    """A split by rows reads the weight once and moves no carry."""
    problem, choices, program = solve(100)
    product = problem.graph.operator_index["product0"]
    axes = [problem.accesses[product].axes[axis] for axis in choices.operators[product]]
    assert axes == ["i", "i"]
    assert program.remote_bytes == 3 * WIDTH * WIDTH * ITEM_BYTES


@pytest.mark.parametrize(
    ("algorithm", "claim"),
    [
        ("exact", "optimal among plans with one layout per loop"),
        ("recursive", "each round optimal, given the rounds before, among plans with one layout per loop"),
        ("equalchop", "everything split once; optimal, given that, among plans with one layout per loop"),
        ("spartan", "greedy, the largest tensor first; nothing is proved"),
    ],
)
def test_claims_name_loops(algorithm, claim):
    solution = ALGORITHMS[algorithm].solve(pose(make_loop(7)))
    assert ALGORITHMS[algorithm].describe_optimality(price(solution.choices), solution.proofs) == claim


@pytest.mark.parametrize("layout", [[0, 0], [0, 1], [1, 1]])
def test_first_next_and_last_values_are_placed_as_the_carry(layout):
    problem, choices, program = solve(3, state=layout)
    (carry,) = problem.graph.carries
    assert list(choices.layout(carry.tensor)) == list(choices.layout(carry.last)) == layout
    asked = [(output.tensor, list(output.layout)) for output in program.outputs]
    assert [(value, layout) for value in carry.values] == [pair for pair in asked if pair[0] in carry.values]
