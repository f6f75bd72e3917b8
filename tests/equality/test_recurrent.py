"""Recurrent nets, unrolled and fused, give the numbers of one device; time steps that are equal fetch their weights once."""

import mxnet as mx
import pytest

from tests.equality.comparison import (
    References,
    compare,
    compare_in_float32,
    compare_random_plans,
    compare_random_plans_in_float32,
    spread_workers,
)
from tests.models.plain import Model
from tests.models.recurrent import RECURRENT_MODELS
from tests.models.recurrent import STEPS as TIME_STEPS
from tests.shared.training import bind_partitioned, random_values, run_single
from tofu.search.algorithms import ALGORITHMS
from tofu.search.choices import make_choices
from tofu.search.cost import evaluate

RANDOM_MODELS = ("lstm", "gru", "bidirectional_gru", "fused_lstm", "attention_decoder")
RANDOM_PLANS = 1  # tests/campaigns/equality.py runs 50

CASES = spread_workers(RECURRENT_MODELS)
RANDOM_CASES = spread_workers(RANDOM_MODELS)


@pytest.fixture(scope="module")
def reference():
    return References(lambda name, dtype: RECURRENT_MODELS[name](dtype))


@pytest.mark.parametrize(("name", "workers"), CASES)
def test_default_plan_equals_one_device(reference, name, workers):
    model, values, step, weights = reference(name, "float64")
    compare(bind_partitioned(model, workers, "float64"), values, step, weights)


@pytest.mark.parametrize(("name", "workers"), RANDOM_CASES)
def test_random_plans_equal_one_device(reference, name, workers):
    compare_random_plans(reference, name, workers, RANDOM_PLANS)


@pytest.mark.parametrize(("name", "workers"), RANDOM_CASES)
def test_float32_is_as_close_as_a_permuted_batch(reference, name, workers):
    compare_in_float32(reference, name, workers)


@pytest.mark.parametrize("workers", [2, 8])
def test_the_fused_operator_in_float32(workers):
    """MXNet's own kernel runs: oneDNN's would go back to what the forward operator read, and find something else there."""
    compare_random_plans_in_float32(RECURRENT_MODELS["fused_lstm"]("float32"), workers, plans=3)


@pytest.mark.parametrize("name", RANDOM_MODELS)
def test_the_search_prices_what_the_plan_moves(name):
    problem = bind_partitioned(RECURRENT_MODELS[name]("float64"), 6, "float64").partition.problem
    solution = ALGORITHMS["recursive"].solve(problem)
    assert solution.result.step_bytes == evaluate(solution.choices).step_bytes


def weight_reads(partition, operators, tensors, parameter):
    """Bytes moved to read one parameter, once for each group that shares its fetches."""
    problem, tensor = partition.problem, partition.graph.tensor_index[parameter]
    choices = make_choices(problem, operators[: len(partition.graph.operators)], tensors)
    return [item[3] for item in evaluate(choices).items if item[1] == tensor]


def test_equal_steps_fetch_a_weight_once():
    """With all steps of a cell alike there is one fetch per phase; a step that is split otherwise fetches for itself."""
    partition = bind_partitioned(RECURRENT_MODELS["lstm"]("float64"), 2, "float64").partition
    graph, problem = partition.graph, partition.problem
    operators, tensors = partition.choices.operators.copy(), partition.choices.tensors.copy()
    tensors[graph.tensor_index["lstm0_h2h_weight"]] = 0
    products = [graph.operator_index[f"lstm0_t{t}_h2h"] for t in range(TIME_STEPS)]
    batch, outer = (problem.accesses[products[0]].axes.index(axis) for axis in problem.accesses[products[0]].axes[:2])
    backward = [graph.operator_index[f"lstm0_t{t}_h2h_backward"] for t in range(TIME_STEPS)]
    operators[products + backward] = batch
    alike = weight_reads(partition, operators, tensors, "lstm0_h2h_weight")
    assert alike == [alike[0]] * 2  # forward and backward: half of the weight for each of two workers
    assert alike[0] == graph.tensors[graph.tensor_index["lstm0_h2h_weight"]].size_bytes
    operators[products[2]] = outer
    assert weight_reads(partition, operators, tensors, "lstm0_h2h_weight") == alike
    tensors[graph.tensor_index["lstm0_h2h_weight"]] = 1
    apart = weight_reads(partition, operators, tensors, "lstm0_h2h_weight")
    assert sorted(apart) == sorted([*alike, alike[0] // 2])


def normalised_cells(steps=4, hidden=8):
    """A cell of one's own, normalised at every step."""
    weights = [mx.sym.Variable(name) for name in ("i2h_weight", "h2h_weight", "norm_gamma", "norm_beta")]
    data = mx.sym.SliceChannel(mx.sym.Variable("data"), num_outputs=steps, axis=1, squeeze_axis=True, name="steps")
    state, states = None, []
    for t in range(steps):
        total = mx.sym.FullyConnected(data[t], weights[0], num_hidden=hidden, no_bias=True, name=f"i2h{t}")
        if state is not None:
            total = total + mx.sym.FullyConnected(state, weights[1], num_hidden=hidden, no_bias=True, name=f"h2h{t}")
        state = mx.sym.LayerNorm(mx.sym.Activation(total, act_type="tanh"), *weights[2:], name=f"norm{t}")
        states.append(state)
    net = mx.sym.FullyConnected(mx.sym.Concat(*states, dim=1), num_hidden=5, name="out")
    return Model(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (8, steps, 6)}, 5)


def test_a_step_in_parts_shares_its_fetches_as_it_was_priced():
    """Steps that were equal in the search share what they fetch, though only one of them is emitted with a LayerNorm in parts."""
    model = normalised_cells()
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", 1)
    hints = {"norm2": "k", "norm2_backward": "k", "norm1": "i0", "norm3": "i0", "i2h_weight": 0}
    executor = bind_partitioned(model, 2, "float64", hints=hints | {f"i2h{t}": "b" for t in range(4)})
    run = {operator.op for operator in executor.partition.problem.graph.operators}
    assert {"LayerNorm", "_tofu_layer_norm_apply"} <= run
    compare(executor, values, step, weights, 1)
