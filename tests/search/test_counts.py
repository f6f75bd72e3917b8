import pytest

from tests.numpy_engine.front_end import ITEM_BYTES
from tests.search.written_steps import apply_tanh, pose
from tofu.errors import InfeasibleError, UnsupportedError
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import price
from tofu.search.topology import Arrangement


@pytest.mark.parametrize("shape", [(2**31, 2**33), (2**28, 2**29)])
def test_too_large_tensors_are_refused(shape):
    size = shape[0] * shape[1] * ITEM_BYTES
    with pytest.raises(
        UnsupportedError, match=rf"to each of 4 workers.* 2\^62 = .*\n.*x of shape .*: {size:,} bytes, 1 x in"
    ):
        pose(apply_tanh(shape))


def test_the_largest_accepted_tensor_is_planned():
    problem = pose(apply_tanh((2**28, 2**28)))
    solution = ALGORITHMS["exact"].solve(problem)
    assert price(solution.choices) == solution.proofs[0].lower_bound == 0


def test_plans_that_move_too_many_bytes_are_refused():
    with pytest.raises(InfeasibleError, match=r"too large to plan for 4 workers .* 2\^50 bytes"):
        ALGORITHMS["exact"].solve(pose(apply_tanh((2**28, 2**28))), {"x": 0, "tanh0_output": 1})


def test_too_large_graphs_are_refused():
    with pytest.raises(UnsupportedError, match=r"The 3,001 tensors of the graph may move .* bytes among 4 wor"):
        pose(apply_tanh((2**28, 2**28), times=3000))


def test_steps_of_weeks_are_refused():
    problem = pose(apply_tanh((2**20, 2**20))).arrange(Arrangement((2, 2), (1.0, 1.0)))
    with pytest.raises(InfeasibleError, match=r"2\^50 bytes or nanoseconds"):
        ALGORITHMS["exact"].solve(problem, {"x": 0, "tanh0_output": 1})
