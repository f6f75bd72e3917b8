import pytest

from tests.numpy_engine.front_end import ITEM_BYTES
from tests.search.hinted_campaign import RULES, run
from tests.search.written_steps import Writer, apply_tanh, pose, recurrence
from tofu.errors import PlanError
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import REPLICATED
from tofu.search.cost import price
from tofu.search.solve import Proof


@pytest.mark.parametrize("rules", list(RULES))
def test_no_plan_under_hints_moves_less_than_claimed(rules):
    false, seen = run(range(60), rules)
    assert not false
    assert seen["plans"] >= 50
    assert seen["a search under more hints"] >= 50


def join_of_a_sum():
    write = Writer()
    a, b, c = (write.input(name, 256, 256) for name in "abc")
    write.next_values[a] = write.apply("add", c, write.apply("add", a, b))
    return write.graph()


def solve(problem, hints):
    solution = ALGORITHMS["exact"].solve(problem, hints)
    return solution, price(solution.choices)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_hint_for_one_operand_leaves_the_other_free(rules):
    problem = pose(join_of_a_sum(), (2,), rules=rules)
    hints = {"a": 0, "b": 0, "c": 1}
    solution, moved = solve(problem, hints)
    assert moved == solve(problem, {**hints, "add0_output": 0})[1] == 256 * 256 * ITEM_BYTES // 2
    assert solution.proofs[0].lower_bound == moved


@pytest.mark.parametrize("algorithm", ["exact", "recursive"])
def test_a_hint_for_a_later_round_restricts_earlier_rounds(algorithm):
    choices = ALGORITHMS[algorithm].solve(pose(apply_tanh((2, 6))), {"x": [..., 0]}).choices
    assert list(choices.layout(0)) == [1, 0]


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("algorithm", ["exact", "recursive"])
def test_rounds_before_a_hint_replicate_if_every_split_excludes_it(algorithm, rules):
    problem = pose(apply_tanh((2, 4), times=2), (4, 2), rules=rules)
    choices = ALGORITHMS[algorithm].solve(problem, {"tanh0": [..., "i1"]}).choices
    assert choices.operators.tolist() == [[REPLICATED, 1], [1, 0]]


def test_infeasible_and_unknown_hints_are_refused():
    problem = pose(apply_tanh((2, 4)), (2, 4))
    with pytest.raises(PlanError, match="operator tanh0 is fixed to 0 in round 1"):
        ALGORITHMS["exact"].solve(problem, {"tanh0": [..., "i0"]})
    with pytest.raises(PlanError, match=r"params/weight: .*; print\(plan\) lists the names, such as x"):
        ALGORITHMS["exact"].solve(problem, {"params/weight": 0})


def test_hints_for_single_time_steps_leave_the_others_tied():
    problem = pose(recurrence(6))
    solution, moved = solve(problem, {"x2": 0, "x3": 1})
    assert solution.proofs == (Proof(moved, " among plans that treat equal time steps alike where hints do"),)
    layouts = {name: solution.choices.layout(problem.graph.tensor_index[name]) for name in ("x2", "x3", "x4", "x5")}
    assert (layouts["x2"], layouts["x3"]) == ([0, 0], [1, 1])
    assert layouts["x4"] == layouts["x5"]
