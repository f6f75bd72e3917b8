from functools import cache

import mxnet as mx
import pytest

import tofu
from tests.models.paper import rnn, transformer, wresnet
from tests.search.random_graphs import random_graph
from tofu import _core
from tofu.analysis import Combine
from tofu.errors import InfeasibleError
from tofu.graph import TensorKind
from tofu.mxnet.frontend.read_symbol import find_labels
from tofu.mxnet.planning import plan_task, read_task
from tofu.planning.settings import Settings
from tofu.search.algorithms import ALGORITHMS, BASELINES
from tofu.search.cost import evaluate

WORKERS = 8
MODELS = {
    "transformer": transformer(1, 64, 8, 8, length=16, vocabulary=64, heads_first=True),
    "wresnet": wresnet(50, 1, 8, image=32, classes=16, base=8, blocks=(1, 1)),
    "rnn": rnn(2, 64, 8, time_steps=3, features=16, classes=16),
}
EVERYWHERE = [(model, algorithm) for model in MODELS for algorithm in BASELINES if algorithm != "megatron"]


def partition(model, algorithm):
    given = {*model.shapes, *find_labels(model.symbol)}
    learned = [name for name in model.symbol.list_arguments() if name not in given]
    settings = Settings(WORKERS, algorithm=algorithm, search_seconds=2)
    return plan_task(read_task(model.symbol, model.shapes, settings, differentiated=learned, updated=learned))


@cache
def find_least_bytes(name):
    return partition(MODELS[name], "exact").plan.communication_bytes


@pytest.mark.parametrize(("name", "algorithm"), [*EVERYWHERE, ("transformer", "megatron")])
def test_baselines_are_no_better_than_the_best_plan(name, algorithm):
    made = partition(MODELS[name], algorithm)
    assert made.plan.algorithm == algorithm
    if algorithm != "data-parallel":
        assert made.plan.communication_bytes >= find_least_bytes(name)
    again = tofu.partition(MODELS[name].symbol, plan=made.plan.to_json(), **MODELS[name].shapes).plan
    assert again == made.plan
    assert made.plan.factors == ((WORKERS,) if ALGORITHMS[algorithm].splits_once else (2, 2, 2))


@pytest.mark.parametrize("name", MODELS)
def test_icml18_has_no_partial_sums(name):
    made = partition(MODELS[name], "icml18")
    graph, accesses = made.searched.problem.graph, made.searched.problem.accesses
    read = {*graph.outputs, *graph.gradients.values(), *(t for operator in graph.operators for t in operator.inputs)}
    for operator, access, choice in zip(graph.operators, accesses, made.searched.operators, strict=False):
        for tensor, written in zip(operator.outputs, access.outputs, strict=True):
            if tensor in read and not graph.tensors[tensor].is_inner:
                assert not any(
                    axis >= 0 and written.combine[axis] in (Combine.REDUCE, Combine.OVERLAP_ADD) for axis in choice
                )
    assert made.plan.communication_bytes > find_least_bytes(name)


def test_data_parallelism_moves_only_gradients():
    net = mx.sym.Variable("data")
    for i in range(2):
        net = mx.sym.FullyConnected(net, num_hidden=256, no_bias=True, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="relu", name=f"act{i}")
    symbol = mx.sym.LinearRegressionOutput(net, name="loss")
    plan = tofu.partition(symbol, ngpus=WORKERS, algorithm="data-parallel", data=(64, 256), loss_label=(64, 256)).plan
    assert plan.communication_bytes == 2 * (WORKERS - 1) * 2 * 256 * 256 * 4
    assert {plan.tensors[name] for name in ("fc0_weight", "fc1_weight")} == {(None, None, None)}
    assert {plan.tensors[name] for name in ("data", "loss_label", "act0_output")} == {(0, 0, 0)}
    for model in MODELS.values():
        made = partition(model, "data-parallel")
        replicated = [t.name for t in made.graph.tensors if t.kind is TensorKind.PARAMETER]
        replicated += [made.graph.tensors[t].name for t in made.graph.gradients.values()]
        assert {made.plan.tensors[name] for name in replicated} == {(None, None, None)}


def test_hints_set_the_batch_dimension_of_data_parallelism():
    turned = mx.sym.transpose(mx.sym.Variable("turned"), axes=(1, 0), name="data0")
    symbol = mx.sym.FullyConnected(turned, num_hidden=16, name="fc")
    plan = tofu.partition(symbol, ngpus=WORKERS, algorithm="data-parallel", hints={"turned": 1}, turned=(16, 64)).plan
    assert plan.tensors["turned"] == (1, 1, 1)
    assert plan.operators["fc"] == ("b", "b", "b")
    with pytest.raises(InfeasibleError, match=r"splits dimension 0 of the inputs, and each is shorter \(data: \(4"):
        tofu.partition(mx.sym.relu(mx.sym.Variable("data")), ngpus=8, algorithm="data-parallel", data=(4, 6))


def test_megatron_splits_pairs_by_columns_and_rows():
    made = partition(MODELS["transformer"], "megatron")
    tensors = made.plan.tensors
    columns = ("layer0_query", "layer0_key", "layer0_value", "layer0_widen", "decoder")
    assert {tensors[f"{name}_weight"] for name in columns} == {(0, 0, 0)}
    assert {tensors[f"{name}_weight"] for name in ("layer0_output", "layer0_narrow", "embedding")} == {(1, 1, 1)}
    assert {tensors[f"layer0_{name}_norm_gamma"] for name in ("attention", "feed")} == {(None, None, None)}
    assert tensors["layer0_scores_output"] == (0, 0, 0)
    moved = {made.problem.graph.tensors[tensor].name for _, tensor, *_ in evaluate(made.choices).items}
    assert "layer0_narrow_output" in moved
    assert not any(name.startswith(("layer0_gelu", "layer0_weights", "layer0_scores")) for name in moved)


@pytest.mark.parametrize("model", [MODELS["wresnet"], transformer(1, 64, 8, 8, length=16, vocabulary=64)])
def test_megatron_refuses_other_models(model):
    with pytest.raises(InfeasibleError, match=r"The columns of .* end at .*\. Use another algorithm for this model\."):
        partition(model, "megatron")


def test_the_greedy_search_is_no_better_than_the_recursive_one():
    for seed in range(40):
        graph = random_graph(seed).native()
        found = _core.search_greedy(graph, [2])
        assert _core.evaluate(graph, [2], found.operators, found.tensors).round_bytes == found.round_bytes
        assert sum(found.round_bytes) >= sum(_core.search_recursive(graph, [2]).round_bytes), f"seed {seed}"
