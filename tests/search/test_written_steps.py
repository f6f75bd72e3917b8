"""Graphs that no framework has read are planned: without phases and links, and with updates of their own."""

from dataclasses import replace

import numpy as np
import pytest

from tests.search.written_steps import WrittenOperators, perceptron, recurrence
from tofu.errors import UndescribedOperatorError
from tofu.program import NodeKind, write_program
from tofu.search import factorize, find_strategies, pose_problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import Choices
from tofu.search.cost import evaluate
from tofu.search.recurrence import EqualParts, find_equal_parts

FOUR = factorize(4)


def pose(graph, **rest):
    return pose_problem(graph, find_strategies(graph, WrittenOperators()), FOUR, **rest)


def solve(problem, algorithm="exact", **rest):
    """The choices, and the bytes that they move."""
    choices = ALGORITHMS[algorithm].solve(problem, **rest).choices
    return choices, evaluate(choices).total_bytes


@pytest.mark.parametrize("algorithm", ["exact", "recursive"])
def test_updates_within_the_step_cost_what_updates_after_it_do(algorithm):
    """They are element-wise: gradients, states and new weights follow the weights."""
    within, after = pose(perceptron("in the step")), pose(perceptron("after it"))
    choices, moved = solve(within, algorithm)
    assert moved == solve(after, algorithm)[1] > 0
    for variable, value in within.graph.next_values.items():
        assert choices.layout(value) == choices.layout(variable)


def test_results_that_replace_variables_are_handed_out_in_their_layouts():
    problem = pose(perceptron("in the step"))
    choices, _ = solve(problem)
    program = write_program(choices)
    asked = {output.tensor: output.layout for output in program.outputs}
    assert len(program.outputs) == 1 + 4
    assert {t: asked[t] for t in problem.graph.next_values.values()} == {
        value: tuple(choices.layout(variable)) for variable, value in problem.graph.next_values.items()
    }
    forward = write_program(choices, inference=True)
    assert [output.tensor for output in forward.outputs] == list(problem.graph.outputs)


def test_a_next_value_that_lies_otherwise_is_fetched_into_place():
    """A weight split by rows whose new value is made by columns: on each of 4 workers 3 quarters of its quarter come from others."""
    graph = perceptron("in the step")
    problem = pose(graph)
    names = {operator.name: operator for operator in graph.operators}
    made = {tensor: name for name, operator in names.items() for tensor in operator.outputs}
    weight = graph.tensor_index["w0"]
    value = graph.next_values[weight]
    hints = {"w0": 0, graph.tensors[value].name: 1, made[value]: "j"}
    choices, moved = solve(problem, hints=hints)
    alone = replace(
        graph, next_values={v: t for v, t in graph.next_values.items() if v != weight}, outputs=(*graph.outputs, value)
    )
    kept = evaluate(drop_update(choices, weight, pose(alone))).total_bytes
    assert moved - kept == graph.tensors[weight].size_bytes * 3 // 4
    assert write_program(choices).remote_bytes == moved


def drop_update(choices, variable, problem):
    """Return the same choices for `problem`, which does not update a variable."""
    graph = choices.problem.graph
    row = len(graph.operators) + [v for v, _ in graph.updates].index(variable)
    return Choices(problem, np.delete(choices.operators, row, axis=0), choices.tensors)


def test_what_a_step_makes_anew_is_no_dead_code():
    graph = perceptron("in the step")
    assert find_running(graph) == {operator.name for operator in graph.operators}
    assert find_running(replace(graph, next_values={})) == {"product0", "activate1", "product2", "subtract3"}


def find_running(graph):
    """The operators that have copies in a program that read anything."""
    problem = pose(graph)
    choices, _ = solve(problem)
    nodes = write_program(choices).nodes
    return {graph.operators[node.id].name for node in nodes if node.kind is NodeKind.OPERATOR}


def test_graphs_without_next_values_keep_their_fingerprints():
    """Plans in files name them."""
    within, after = perceptron("in the step"), perceptron("after it")
    assert after.fingerprint == "b7d987181c9a76652f132dd04a7b4aca"
    assert within.fingerprint != replace(within, next_values={}).fingerprint


def test_time_steps_of_both_passes_are_found_without_links():
    """Of six steps: all forward operators, and the gradients but of the last, which begins with the loss; two products of `start`, an
    input, are like those of the steps' inputs.
    """
    graph = recurrence(6)
    families = find_equal_parts(graph).operators
    kinds = [{(graph.operators[o].op, len(family)) for o in family} for family in families]
    assert sorted(kind for (kind,) in kinds) == [
        *(("activate", 6), ("add", 4), ("add", 5), ("add", 6), ("product", 4)),
        *(("product", 5), ("product", 6), ("product", 6), ("product", 6), ("scale_by_slope", 5)),
    ]


@pytest.mark.parametrize("has_phases", [False, True])
def test_a_recurrence_without_links_is_planned_as_well_as_with_them(has_phases):
    """Steps share what they fetch, which they do not where they are not known to be equal."""
    without, linked = (pose(recurrence(4, has_phases, has_links)) for has_links in (False, True))
    apart = pose(without.graph, equal=EqualParts((), ()))
    assert solve(without)[1] <= solve(linked)[1] < solve(apart)[1]


def test_an_operator_without_description_says_how_to_describe_one():
    graph = perceptron("in the step")
    odd = replace(graph, operators=(replace(graph.operators[0], op="odd"), *graph.operators[1:]))
    with pytest.raises(
        UndescribedOperatorError, match=r"Describe each \(@registry\.op\(name\).*\n.*odd, used by product0"
    ):
        find_strategies(odd, WrittenOperators())
