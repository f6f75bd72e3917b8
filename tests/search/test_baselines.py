"""Every baseline is what section 7.3 of the paper says that it is, and gives an ordinary plan."""

import json
import random
from math import prod

import mxnet as mx
import pytest

import tofu
from tests.models.paper import rnn, transformer, wresnet
from tests.models.plain import mlp
from tests.search.cell_model import CellModel
from tests.search.random_graphs import GraphSpec, matmul, random_graph
from tests.search.test_cost import choice_roots
from tofu import _core
from tofu.analysis import Combine
from tofu.errors import InfeasibleError, PlanError
from tofu.graph import TensorKind
from tofu.mxnet.frontend.read_symbol import find_labels
from tofu.mxnet.planning import compile_partition
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


def partition(model, algorithm, hints=None):
    given = {*model.shapes, *find_labels(model.symbol)}
    learned = [name for name in model.symbol.list_arguments() if name not in given]
    settings = Settings(WORKERS, hints, algorithm=algorithm, search_seconds=2)
    return compile_partition(model.symbol, model.shapes, settings, differentiated=learned, updated=learned)


@pytest.mark.parametrize(("name", "algorithm"), [*EVERYWHERE, ("transformer", "megatron")])
def test_plans_are_ordinary_and_no_better_than_the_best(name, algorithm):
    made = partition(MODELS[name], algorithm)
    assert made.plan.algorithm == algorithm
    best = partition(MODELS[name], "exact").plan
    if algorithm != "data-parallel":  # which replicates what no search would
        assert made.plan.communication_bytes >= best.communication_bytes
    again = tofu.partition(MODELS[name].symbol, plan=made.plan.to_json(), **MODELS[name].shapes).plan
    assert again == made.plan
    assert made.plan.factors == ((WORKERS,) if ALGORITHMS[algorithm].splits_once else (2, 2, 2))


@pytest.mark.parametrize("name", MODELS)
def test_allrow_takes_the_first_dimension_and_the_best_operators(name):
    made = partition(MODELS[name], "allrow-greedy")
    problem, choices = made.searched.problem, made.searched
    for position, tensor in enumerate(problem.graph.tensors):
        if not tensor.is_inner and position not in problem.graph.written_in_place:
            first = next((d for d, extent in enumerate(tensor.shape) if extent >= WORKERS), -1)
            assert list(choices.tensors[position]) == [first]
    cost = evaluate(choices).total_bytes
    rng = random.Random(0)
    for position in rng.sample(range(len(problem.graph.operators)), 20):
        shared = [
            o
            for o in range(problem.coarse.num_operators)
            if problem.coarse.choice_root(o) == problem.coarse.choice_root(position)
        ]
        for axis in _core.feasible_choices(problem.native, [WORKERS], "operator", position, []):
            operators = choices.operators.copy()
            operators[shared] = axis
            try:
                other = _core.evaluate(problem.native, [WORKERS], operators, choices.tensors)
            except ValueError:  # it would write in place what its worker does not hold
                continue
            assert other.total_bytes >= cost


def test_equalchop_is_the_best_of_the_one_step_baselines():
    for model in MODELS.values():
        chopped = partition(model, "equalchop").plan.communication_bytes
        assert all(
            chopped <= partition(model, other).plan.communication_bytes
            for other in BASELINES
            if ALGORITHMS[other].splits_once
        )


@pytest.mark.parametrize("name", MODELS)
def test_icml18_adds_nothing_up(name):
    made = partition(MODELS[name], "icml18")
    graph, accesses = made.searched.problem.graph, made.searched.problem.accesses
    read = {*graph.outputs, *graph.gradients.values(), *(t for operator in graph.operators for t in operator.inputs)}
    for operator, access, choice in zip(graph.operators, accesses, made.searched.operators, strict=False):
        for tensor, written in zip(operator.outputs, access.outputs, strict=True):
            if tensor in read and not graph.tensors[tensor].is_inner:
                assert not any(
                    axis >= 0 and written.combine[axis] in (Combine.REDUCE, Combine.OVERLAP_ADD) for axis in choice
                )
    assert made.plan.communication_bytes > partition(MODELS[name], "exact").plan.communication_bytes


def test_data_parallelism_moves_gradients_alone():
    """Of two layers whose weights are large enough for a reduce-scatter and an all-gather: 2 (k - 1) times their size."""
    net = mx.sym.Variable("data")
    for i in range(2):
        net = mx.sym.FullyConnected(net, num_hidden=256, no_bias=True, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="relu", name=f"act{i}")
    symbol = mx.sym.LinearRegressionOutput(net, name="loss")
    plan = tofu.partition(symbol, ngpus=WORKERS, algorithm="data-parallel", data=(64, 256), loss_label=(64, 256)).plan
    assert plan.communication_bytes == 2 * (WORKERS - 1) * 2 * 256 * 256 * 4
    assert {plan.tensors[name] for name in ("fc0_weight", "fc1_weight")} == {(None, None, None)}
    assert {plan.tensors[name] for name in ("data", "loss_label", "act0_output")} == {(0, 0, 0)}


@pytest.mark.parametrize("name", MODELS)
def test_data_parallelism_replicates_all_parameters(name):
    made = partition(MODELS[name], "data-parallel")
    graph, plan = made.graph, made.plan
    kept = [t.name for t in graph.tensors if t.kind is TensorKind.PARAMETER]
    kept += [graph.tensors[t].name for t in graph.gradients.values()]
    assert {plan.tensors[name] for name in kept} == {(None, None, None)}


def test_the_batch_of_data_parallelism_can_be_hinted():
    turned = mx.sym.transpose(mx.sym.Variable("turned"), axes=(1, 0), name="data0")
    symbol = mx.sym.FullyConnected(turned, num_hidden=16, name="fc")
    plan = tofu.partition(symbol, ngpus=WORKERS, algorithm="data-parallel", hints={"turned": 1}, turned=(16, 64)).plan
    assert plan.tensors["turned"] == (1, 1, 1)
    assert plan.operators["fc"] == ("b", "b", "b")
    with pytest.raises(
        InfeasibleError, match=r"splits dimension 0 of the inputs, and none is that long \(data: \(4, 6\)\)"
    ):
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
    assert "layer0_narrow_output" in moved  # the sum behind the rows
    assert not any(name.startswith(("layer0_gelu", "layer0_weights", "layer0_scores")) for name in moved)


@pytest.mark.parametrize("name", ["wresnet", "rnn", "batch first"])
def test_megatron_does_not_apply_everywhere(name):
    model = MODELS.get(name) or transformer(1, 64, 8, 8, length=16, vocabulary=64)
    with pytest.raises(InfeasibleError, match=r"The columns of .* end at .*\. Use another algorithm for this model\."):
        partition(model, "megatron")


def greedy_by_hand(spec, workers):
    """The heuristic over the cell-by-cell model, for graphs without two tensors of one size."""
    model, roots = CellModel(spec, [workers]), choice_roots(spec)
    tensors = [("tensor", t) for t in range(len(spec.tensors))]
    domains = {("tensor", t): model.tensor_choices(info, ()) for t, info in enumerate(spec.tensors)}
    domains |= {r: model.operator_choices(spec.operators[r[1]], ()) for r in roots if r not in tensors}
    values = {}
    incidences = [(count, key, roots[o], ("tensor", t)) for count, key, o, t in model.incidences()]

    def known(decider, value, also):
        assumed = {**values, **also, decider: value}
        return sum(
            count(*key, (assumed[a],), (assumed[b],))
            for count, key, a, b in incidences
            if decider in (a, b) and a in assumed and b in assumed
        )

    def cheapest(decider):
        around = {a if b == decider else b for _, _, a, b in incidences if decider in (a, b)}
        free = [n for n in around if n not in values and n not in tensors and n != decider]
        return min(
            domains[decider],
            key=lambda value: (
                known(decider, value, {})
                + sum(min(known(n, answer, {decider: value}) for answer in domains[n]) for n in free)
            ),
        )

    for tensor in sorted(tensors, key=lambda d: -prod(spec.tensors[d[1]].shape) * spec.tensors[d[1]].item_bytes):
        values[tensor] = cheapest(tensor)
        for other in [a for _, _, a, b in incidences if b == tensor and a not in tensors and a not in values]:
            values[other] = cheapest(other)
    return sum(count(*key, (values[a],), (values[b],)) for count, key, a, b in incidences)


@pytest.mark.parametrize("seed", range(150))
def test_the_greedy_plan_is_that_of_the_heuristic(seed):
    spec = random_graph(seed)
    sizes = [prod(tensor.shape) * tensor.item_bytes for tensor in spec.tensors]
    graph = spec.native()
    found = _core.search_greedy(graph, [2])
    assert _core.evaluate(graph, [2], found.operators, found.tensors).step_bytes == found.step_bytes
    assert sum(found.step_bytes) >= sum(_core.search_recursive(graph, [2]).step_bytes)
    if len(set(sizes)) == len(sizes):
        assert sum(found.step_bytes) == greedy_by_hand(spec, 2)


def test_spartan_starts_with_the_largest_tensor():
    """w (64 x 16) is largest: row-wise, its product needs no sum; then y, by columns, and x is read whole."""
    spec = GraphSpec()
    x, w = spec.tensor((8, 16)), spec.tensor((64, 16))
    spec.outputs.append(matmul(spec, x, w))
    result = _core.search_greedy(spec.native(), [8])
    assert result.operators.tolist() == [[1]]
    assert result.tensors.tolist() == [[0], [0], [1]]
    assert sum(result.step_bytes) == 7 * 8 * 16 * 4


@pytest.mark.parametrize("algorithm", [a for a in BASELINES if a not in ("megatron", "data-parallel")])
def test_hints_come_first(algorithm):
    steps = 1 if ALGORITHMS[algorithm].splits_once else 3
    hints = {"fc1_weight": 1, "fc0": "k0"} if algorithm != "icml18" else {"fc1_weight": 1, "fc0": "h"}
    model = mlp(16)
    plan = tofu.partition(model.symbol, ngpus=8, algorithm=algorithm, hints=hints, **model.shapes).plan
    assert plan.tensors["fc1_weight"] == (1,) * steps
    assert plan.operators["fc0"] == (hints["fc0"],) * steps


def test_icml18_refuses_a_hint_that_adds_up():
    model = mlp(16)
    with pytest.raises(PlanError, match="fc0: 'k0' is not an axis it can be split along"):
        tofu.partition(model.symbol, ngpus=8, algorithm="icml18", hints={"fc0": "k0"}, **model.shapes)


def test_operators_may_be_replicated_but_for_random_ones():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc")
    symbol = mx.sym.Dropout(net, name="drop")
    plan = tofu.partition(symbol, ngpus=2, hints={"fc_weight": None}, data=(8, 8)).plan
    assert plan.tensors["fc_weight"] == (None,)
    with pytest.raises(PlanError, match="each worker would draw other random numbers"):
        tofu.partition(symbol, ngpus=2, plan=replicate(tofu.partition(symbol, ngpus=2, data=(8, 8)).plan), data=(8, 8))


def replicate(plan):
    """A plan by hand in which every worker computes everything."""
    value = json.loads(plan.to_json())
    del value["digest"]  # edited on purpose
    value["operators"] = {name: [None] for name in value["operators"]}
    value["tensors"] = {name: [None] for name in value["tensors"]}
    return json.dumps(value)
