import mxnet as mx
import pytest

from tests.equality.comparison import compare_split, list_operators
from tests.models.plain import PlainModel
from tests.models.recurrent import RECURRENT_MODELS
from tests.models.recurrent import STEPS as TIME_STEPS
from tests.shared.training import bind_partitioned
from tofu import _core
from tofu.search.choices import make_choices
from tofu.search.cost import evaluate


@pytest.mark.parametrize("name", ["lstm", "bidirectional_gru", "fused_lstm", "attention_decoder"])
def test_the_search_prices_what_the_plan_moves(name):
    problem = bind_partitioned(RECURRENT_MODELS[name]("float64"), 6, "float64").partition.problem
    found = _core.search_recursive(problem.search_graph, list(problem.factors))
    cost = _core.evaluate(problem.native, list(problem.factors), found.operators, found.tensors)
    assert found.round_bytes == cost.round_bytes


def weight_reads(partition, operators, tensors, parameter):
    """Bytes moved to read one parameter, per group of time steps that share a fetch."""
    problem, tensor = partition.problem, partition.graph.tensor_index[parameter]
    choices = make_choices(problem, operators[: len(partition.graph.operators)], tensors)
    return [item[3] for item in evaluate(choices).items if item[1] == tensor]


def test_equal_steps_fetch_a_weight_once():
    """Time steps that are split alike share one fetch per phase. A step that is split otherwise fetches for itself."""
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


def build_normalized_cells(steps=4, hidden=8):
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
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (8, steps, 6)}, 5)


def test_a_step_in_parts_shares_its_fetches_as_it_was_priced():
    hints = {"norm2": "k", "norm2_backward": "k", "norm1": "i0", "norm3": "i0", "i2h_weight": 0}
    executor = compare_split(build_normalized_cells(), 2, hints | {f"i2h{t}": "b" for t in range(4)})
    assert {"LayerNorm", "_tofu_layer_norm_apply"} <= list_operators(executor)
