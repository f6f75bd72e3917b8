import pytest

from tests.search.hinted_campaign import RULES, run
from tests.search.written_steps import Writer, WrittenOperators, recurrence
from tofu.errors import PlanError
from tofu.graph import TensorKind
from tofu.search import find_strategies, make_problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import REPLICATED
from tofu.search.cost import price
from tofu.search.native import FETCH_RULES
from tofu.search.solve import Proof


@pytest.mark.parametrize("rules", list(RULES))
def test_no_plan_under_hints_moves_less_than_claimed(rules):
    false, seen = run(range(60), rules)
    assert not false
    assert seen["plans"] >= 50
    assert seen["a search under more hints"] >= 50


def join_of_a_sum():
    write = Writer()
    a, b, c = (write.variable(name, 256, 256, TensorKind.INPUT) for name in "abc")
    return write.graph([], next_values={a: write.apply("add", c, write.apply("add", a, b))})


def pose(graph, rules, factors=(2,)):
    return make_problem(graph, find_strategies(graph, WrittenOperators()), factors, rules=rules)


def solve(problem, hints):
    solution = ALGORITHMS["exact"].solve(problem, hints)
    return solution, price(solution.choices)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_hint_for_one_operand_leaves_the_other_free(rules):
    problem = pose(join_of_a_sum(), rules)
    hints = {"a": 0, "b": 0, "c": 1}
    solution, moved = solve(problem, hints)
    assert moved == solve(problem, {**hints, "add0_output": 0})[1] == 256 * 256 * 4 // 2
    assert solution.proofs[0].lower_bound == moved


@pytest.mark.parametrize("algorithm", ["exact", "recursive"])
def test_a_hint_for_a_later_round_restricts_earlier_rounds(algorithm):
    write = Writer()
    x = write.variable("x", 2, 6, TensorKind.INPUT)
    problem = pose(write.graph([write.apply("activate", x)]), FETCH_RULES, (2, 2))
    choices = ALGORITHMS[algorithm].solve(problem, {"x": [..., 0]}).choices
    assert list(choices.layout(x)) == [1, 0]


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("algorithm", ["exact", "recursive"])
def test_rounds_before_a_hint_replicate_if_every_split_excludes_it(algorithm, rules):
    write = Writer()
    x = write.variable("x", 2, 4, TensorKind.INPUT)
    problem = pose(write.graph([write.apply("activate", write.apply("activate", x))]), rules, (4, 2))
    choices = ALGORITHMS[algorithm].solve(problem, {"activate0": [..., "j"]}).choices
    assert choices.operators.tolist() == [[REPLICATED, 1], [1, 0]]


def test_infeasible_and_unknown_hints_are_refused():
    write = Writer()
    x = write.variable("x", 2, 4, TensorKind.INPUT)
    problem = pose(write.graph([write.apply("activate", x)]), FETCH_RULES, (2, 4))
    with pytest.raises(PlanError, match="operator activate0 is fixed to 0 in round 1"):
        ALGORITHMS["exact"].solve(problem, {"activate0": [..., "i"]})
    with pytest.raises(PlanError, match=r"params/weight: .*; print\(plan\) lists the names, such as x"):
        ALGORITHMS["exact"].solve(problem, {"params/weight": 0})


def test_hints_for_single_time_steps_leave_the_others_tied():
    problem = pose(recurrence(6), FETCH_RULES, (2, 2))
    solution, moved = solve(problem, {"x2": 0, "x3": 1})
    assert solution.proofs == (Proof(moved, " among plans that treat equal time steps alike where hints do"),)
    layouts = {name: solution.choices.layout(problem.graph.tensor_index[name]) for name in ("x2", "x3", "x4", "x5")}
    assert (layouts["x2"], layouts["x3"]) == ([0, 0], [1, 1])
    assert layouts["x4"] == layouts["x5"]
