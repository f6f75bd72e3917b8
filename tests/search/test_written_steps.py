from dataclasses import replace

import pytest

from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.steps import perceptron
from tests.search.written_steps import pose, recurrence
from tofu.errors import UndescribedOperatorError
from tofu.program import write_program
from tofu.search import find_strategies
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate
from tofu.search.recurrence import EqualParts, find_equal_parts


def solve(problem, algorithm="exact", **rest):
    choices = ALGORITHMS[algorithm].solve(problem, **rest).choices
    return choices, evaluate(choices).total_bytes


@pytest.mark.parametrize("algorithm", ["exact", "recursive"])
def test_updates_within_the_step_cost_the_same(algorithm):
    after = perceptron()
    gradients = {t: gradient for t, gradient in after.gradients.items() if t in after.updated}
    within, after = pose(perceptron(has_updates=True)), pose(replace(after, gradients=gradients))
    hints = {"bias0": 0, "bias1": 0}  # else replicated, which only an optimizer after the step updates for free
    choices, moved = solve(within, algorithm, hints=hints)
    assert moved == solve(after, algorithm, hints=hints)[1] > 0
    for variable, value in within.graph.next_values.items():
        assert choices.layout(value) == choices.layout(variable)


def test_next_values_are_returned_in_the_layout_of_their_variables():
    problem = pose(perceptron(has_updates=True))
    choices, _ = solve(problem)
    program = write_program(choices)
    asked = {output.tensor: output.layout for output in program.outputs}
    assert len(program.outputs) == 2 + 4
    assert {t: asked[t] for t in problem.graph.next_values.values()} == {
        value: tuple(choices.layout(variable)) for variable, value in problem.graph.next_values.items()
    }
    forward = write_program(choices, inference=True)
    assert [output.tensor for output in forward.outputs] == list(problem.graph.outputs)


def test_time_steps_are_found_without_links():
    graph = recurrence(6)
    families = find_equal_parts(graph).operators
    kinds = [{(graph.operators[o].op, len(family)) for o in family} for family in families]
    assert sorted(kind for (kind,) in kinds) == [
        *(("np.add", 4), ("np.add", 5), ("np.add", 6), ("np.product", 4), ("np.product", 5)),
        *(("np.product", 6), ("np.product", 6), ("np.product", 6), ("np.tanh", 6), ("np.tanh_backward", 5)),
    ]


@pytest.mark.parametrize("has_phases", [False, True])
def test_a_recurrence_without_links_is_planned_as_well_as_with_them(has_phases):
    without, linked = (pose(recurrence(4, has_phases, has_links)) for has_links in (False, True))
    apart = pose(without.graph, equal=EqualParts((), ()))
    assert solve(without)[1] <= solve(linked)[1] < solve(apart)[1]


def test_undescribed_operators_are_refused_with_a_remedy():
    graph = perceptron(has_updates=True)
    odd = replace(graph, operators=(replace(graph.operators[0], op="odd"), *graph.operators[1:]))
    with pytest.raises(UndescribedOperatorError, match=r"Describe each \(@registry\.op\(name\).*\n.*odd, used by"):
        find_strategies(odd, NumpyFrontEnd())
