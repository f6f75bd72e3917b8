"""Time steps are coalesced if, and only if, the graph shows that they are equal."""

import random

import mxnet as mx
import pytest

from tests.models.plain import mlp
from tests.models.recurrent import RECURRENT_MODELS, STEPS
from tofu.mxnet.frontend.read_symbol import read_graph
from tofu.search.recurrence import EqualParts, find_equal_parts

HIDDEN = 8
SPECIAL = 3


def read_training_graph(symbol, shapes):
    given = {name for name in symbol.list_arguments() if name in shapes or name.endswith("label")}
    learned = [name for name in symbol.list_arguments() if name not in given]
    return read_graph(symbol, shapes, differentiated=learned, updated=learned).graph


def find_families(graph):
    return {frozenset(graph.operators[o].name for o in family) for family in find_equal_parts(graph).operators}


def find_tied_tensors(graph):
    return {frozenset(graph.tensors[t].name for t in tied) for tied in find_equal_parts(graph).tensors}


def name_steps(pattern, steps):
    return frozenset(pattern.format(t) for t in steps)


def unroll(different=None, steps=STEPS, special=SPECIAL, zeros=False):
    labels = iter(random.Random(4).sample(range(10**6), 40 * steps))
    names = {}

    def call(function, *inputs, role, t, **attributes):
        names[role, t] = f"n{next(labels)}"
        return function(*inputs, name=names[role, t], **attributes)

    weights = {name: mx.sym.Variable(name) for name in ("in_weight", "state_weight", "other_weight", "out_weight")}
    if zeros:
        hidden, memory = mx.sym.zeros((4, HIDDEN)), mx.sym.zeros((4, HIDDEN))
    else:
        hidden, memory = mx.sym.Variable("hidden"), mx.sym.Variable("memory")
    past, heads = [hidden], []
    for t in range(steps):
        different_names = different if t == special else None
        state = past[-2] if different_names == "older state" else hidden
        weight = weights["other_weight" if different_names == "another weight" else "state_weight"]
        data = mx.sym.Variable(f"data{t}")
        left = call(
            mx.sym.FullyConnected, data, weights["in_weight"], role="in", t=t, no_bias=True, num_hidden=2 * HIDDEN
        )
        right = call(mx.sym.FullyConnected, state, weight, role="state", t=t, no_bias=True, num_hidden=2 * HIDDEN)
        gates = call(mx.sym.SliceChannel, left + right, role="gates", t=t, num_outputs=2)
        act = "relu" if different_names == "another attribute" else "tanh"
        fresh = call(mx.sym.Activation, gates[0], role="fresh", t=t, act_type=act)
        if different_names == "one more operator":
            fresh = mx.sym.Activation(fresh, act_type="softsign")
        gate = call(mx.sym.Activation, gates[1], role="gate", t=t, act_type="sigmoid")
        if different_names == "swapped":
            gate, fresh = fresh, gate
        memory = call(mx.sym.elemwise_add, memory, gate * fresh, role="memory", t=t)
        hidden = call(mx.sym.Activation, memory, role="hidden", t=t, act_type="tanh")
        if different_names == "one more at the end":
            hidden = mx.sym.Activation(hidden, act_type="softsign")
        past.append(hidden)
        out = call(mx.sym.FullyConnected, hidden, weights["out_weight"], role="out", t=t, no_bias=True, num_hidden=5)
        heads.append(call(mx.sym.SoftmaxOutput, out, role="loss", t=t))
    shapes = {f"data{t}": (4, 6) for t in range(steps)}
    if not zeros:
        shapes |= {"hidden": (4, HIDDEN), "memory": (4, HIDDEN)}
    return read_training_graph(mx.sym.Group(heads), shapes), names


ROLES = ("in", "state", "gates", "fresh", "gate", "memory", "hidden", "out", "loss")


@pytest.mark.parametrize("zeros", [False, True])
def test_user_defined_cells_are_coalesced(zeros):
    graph, names = unroll(zeros=zeros)
    found = find_families(graph)
    for role in ROLES:
        assert frozenset(names[role, t] for t in range(STEPS)) in found
        if role != "memory":  # the gradient of a sum is no operator
            assert frozenset(f"{names[role, t]}_backward" for t in range(STEPS)) in found, role
    tied = find_tied_tensors(graph)
    assert name_steps("data{}", range(STEPS)) in tied
    assert frozenset(f"{names['hidden', t]}_output" for t in range(STEPS)) in tied


DIFFERENCES = ("one more operator", "one more at the end", "another attribute", "another weight", "swapped")


@pytest.mark.parametrize(("different", "special"), [*zip(DIFFERENCES, (1, 3, 1, 3, 1), strict=True)])
def test_a_different_step_stays_apart(different, special):
    graph, names = unroll(different, special=special)
    different_names = {name for (_, t), name in names.items() if t == special}
    different_names |= {f"{name}_backward" for name in different_names}
    for family in find_families(graph):
        assert not (family & different_names) or family <= different_names, family
    others = [t for t in range(STEPS) if t != special]
    for role in ROLES:
        assert frozenset(names[role, t] for t in others) in find_families(graph)


@pytest.mark.parametrize(("different", "special"), [("older state", 3), ("swapped", 0), ("swapped", STEPS - 1)])
def test_a_different_step_at_an_end_or_with_an_older_state_stays_apart(different, special):
    graph, names = unroll(different, special=special)
    different_names = {name for (_, t), name in names.items() if t == special}
    others = {names["state", t] for t in range(STEPS) if t != special}
    families = find_families(graph)
    assert all(not (family & different_names) or family <= different_names for family in families)
    assert any(len(family & others) >= 3 for family in families)


def list_states(name):
    states = [mx.sym.Variable(f"{name}_hidden")]
    weight = mx.sym.Variable(f"{name}_weight")
    for t in range(STEPS):
        product = mx.sym.FullyConnected(states[-1], weight, name=f"{name}{t}_product", no_bias=True, num_hidden=HIDDEN)
        states.append(mx.sym.Activation(product, act_type="tanh", name=f"{name}{t}"))
    return states


def test_readers_of_states_at_different_distances_stay_apart():
    states = list_states("s")
    heads = [
        mx.sym.elemwise_add(states[t], states[t - distance], name=f"sum{t}_{distance}")
        for distance in (1, 2)
        for t in range(3, STEPS + 1)
    ]
    found = find_families(read_training_graph(mx.sym.Group(heads), {"s_hidden": (4, HIDDEN)}))
    for distance in (1, 2):
        assert name_steps(f"sum{{}}_{distance}", range(3, STEPS + 1)) in found


@pytest.mark.parametrize("first", [0, 1])
def test_readers_of_two_recurrences_belong_to_no_step(first):
    states = {name: list_states(name) for name in ("l", "r")}
    joined = []
    for left, right in ((1, 1), (2, 4), (3, 2), (4, 3)):
        pair = (states["l"][left], states["r"][right])
        joined.append(mx.sym.elemwise_mul(pair[first], pair[1 - first], name=f"joined{left}"))
    heads = [mx.sym.elemwise_add(joined[0], product, name=f"sum{i}") for i, product in enumerate(joined[1:])]
    graph = read_training_graph(mx.sym.Group(heads), {"l_hidden": (4, HIDDEN), "r_hidden": (4, HIDDEN)})
    assert {name_steps("joined{}", (1, 2, 3, 4)), name_steps("sum{}", range(3))} <= find_families(graph)


def test_families_are_refined_by_kind():
    equal = EqualParts(((0, 2, 3, 5), (1, 4)), ((6, 7),))
    assert equal.refine(("a", "a", "b", "a", "b", "b")) == EqualParts(((0, 3), (2, 5)), ((6, 7),))


@pytest.mark.parametrize("name", ["lstm", "gluon_lstm"])
def test_layers_stay_apart(name):
    model = RECURRENT_MODELS[name]("float32")
    found = find_families(read_training_graph(model.symbol, model.shapes))
    for layer in range(2):
        for part in ("i2h", "h2h", "i2h_backward", "h2h_backward"):
            assert name_steps(f"lstm{layer}_t{{}}_{part}", range(STEPS)) in found


def test_other_models_have_no_equal_parts():
    model = mlp()
    assert find_families(read_training_graph(model.symbol, model.shapes)) == set()
