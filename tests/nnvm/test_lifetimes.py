"""The rules of lifetimes accept a graph if and only if every order of the engine is right."""

import random
import re

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.nnvm.graphs import emit, mlp
from tests.nnvm.interleaver import CHANGE, READ, SHAPE, SPOIL, is_always_right
from tests.shared.json_graph import JsonGraph
from tofu import _mxnet


def random_view(seed):
    rng = random.Random(seed)
    variables, operators = rng.randint(1, 3), rng.randint(3, 6)
    nodes, in_place = [], []
    owner, buffer = [], []  # by entry
    for node in range(variables + operators):
        is_variable = node < variables
        worker = rng.randrange(2)
        inputs = [] if is_variable else rng.sample(range(len(owner)), min(len(owner), rng.randint(1, 3)))
        reads = []
        for entry in inputs:
            changes = entry < variables and rng.random() < 0.25
            reads.append((entry, CHANGE if changes else rng.choice((READ, READ, READ, READ, SHAPE, SPOIL))))
        first_entry = len(owner)
        for output in range(1 if is_variable or rng.random() < 0.8 else 2):
            own = [buffer[e] for e in range(variables, len(owner)) if owner[e] == worker]
            is_shared = not is_variable and own and rng.random() < 0.5
            buffer.append(rng.choice(own) if is_shared else 100 + len(owner))
            in_place.extend(
                (node, position, output, int(rng.random() < 0.2))
                for position in range(len(inputs))
                if rng.random() < 0.5
            )
            owner.append(worker)
        nodes.append((f"n{node}", worker, None if is_variable else reads, buffer[first_entry:]))
    if rng.random() >= 0.4:
        return view_of(nodes, [len(owner) - 1], in_place)
    first, second = sorted(rng.sample(range(len(owner)), 2))
    nodes.append((f"n{len(nodes)}", worker, [(first, READ), (second, READ)], [buffer[first]]))
    view = view_of(nodes, [len(owner) - 1, len(owner)], in_place)
    view["is_skipped"][-1] = 1
    if rng.random() < 0.9:
        view["is_added"][second] = 1
        view["buffer"][second] = buffer[first]
    return view


def test_rules_agree_with_all_orders_of_random_graphs():
    right, wrong = [], []
    for seed in range(4000):
        view = random_view(seed)
        problems = _mxnet.check_engine_view(view)
        assert is_always_right(view) == (not problems), (seed, problems)
        (wrong if problems else right).append(seed)
    assert min(len(right), len(wrong)) > 300


@pytest.fixture(scope="module")
def small():
    graph = emit(mlp(hidden=4, layers=1, bias=False), 2, data=(4, 6), algorithm="data-parallel")
    return _mxnet.PlannedGraph(graph.handle.value, {}, {}).engine_view()


def test_rules_agree_with_all_orders_of_a_real_graph(small):
    """Merge random pairs of buffers of a real graph."""
    assert is_always_right(small)
    assert _mxnet.check_engine_view(small) == []
    buffers = np.unique(small["buffer"])
    found = set()
    for seed in range(60):
        kept, dropped = random.Random(seed).sample(list(buffers), 2)
        view = {**small, "buffer": np.where(small["buffer"] == dropped, kept, small["buffer"])}
        problems = _mxnet.check_engine_view(view)
        assert is_always_right(view) == (not problems), (kept, dropped, problems)
        found |= {re.sub(r"\S*\d\S*", "X", text) for text in problems}
    assert any("shares a buffer with an entry of another worker" in text for text in found)
    assert any("in whose buffer X is by then" in text for text in found)


def view_of(nodes, outputs, in_place=()):
    return {
        "names": [name for name, *_ in nodes],
        "group": np.array([worker for _, worker, _, _ in nodes]),
        "is_variable": np.array([int(reads is None) for _, _, reads, _ in nodes]),
        "is_skipped": np.zeros(len(nodes), np.int64),
        "first_entry": np.cumsum([0, *(len(buffers) for *_, buffers in nodes)]),
        "first_read": np.cumsum([0, *(len(reads or ()) for _, _, reads, _ in nodes)]),
        "read": np.array([entry for _, _, reads, _ in nodes for entry, _ in reads or ()]),
        "access": np.array([access for _, _, reads, _ in nodes for _, access in reads or ()]),
        "buffer": np.array([buffer for *_, buffers in nodes for buffer in buffers]),
        "is_added": np.zeros(sum(len(buffers) for *_, buffers in nodes), np.int64),
        "outputs": np.array(outputs),
        "in_place": np.array(in_place, np.int64).reshape(-1, 4),
    }


def test_more_conflicts_than_bits():
    """Each of 100 variables has a reader on another worker; only one pair is not ordered."""
    nodes, outputs = [], []
    for n in range(100):
        nodes += [(f"state{n}", 0, None, [3 * n])]
    for n in range(100):
        reads = [(n, READ)]
        nodes += [(f"fetch{n}", 1, reads, [3 * n + 1])]
    for n in range(100):
        nodes += [(f"change{n}", 0, [(n, CHANGE), *([(100 + n, READ)] if n != 70 else [])], [3 * n + 2])]
        outputs.append(200 + n)
    assert _mxnet.check_engine_view(view_of(nodes, outputs)) == [
        "fetch70 and change70 use state70 at the same time, and one changes it"
    ]


def kernel(name, *reads, buffer, worker=0):
    return name, worker, [(entry, READ) for entry in reads], [buffer]


def sum_of(*nodes):
    """Return the view of a sum that is left out: its second summand, the last kernel but one, adds to the first."""
    view = view_of(nodes, [len(nodes) - 1])
    view["is_skipped"][-1] = view["is_added"][-2] = 1
    return view


X, FIRST = ("x", 0, None, [0]), kernel("first", buffer=0)
A, B, SECOND = kernel("a", 0, buffer=1), kernel("b", 0, buffer=1), kernel("second", buffer=0)
NORM, SPOILS = ("norm", 0, [(0, CHANGE)], [1]), ("backward", 0, [(0, SPOIL)], [1])
BROKEN = {
    "norm and fetch use x at the same time, and one changes it": view_of(
        [X, NORM, kernel("fetch", 0, buffer=2, worker=1)], [1, 2]
    ),
    "late reads first, which nobody has written before, or somebody has spoilt": view_of(
        [FIRST, SPOILS, kernel("late", 0, 1, buffer=2)], [2]
    ),
    "over writes over a, which it reads": view_of([X, A, kernel("over", 1, buffer=1)], [2]),
    "c reads a, in whose buffer b is by then": view_of([X, A, B, kernel("c", 1, buffer=2)], [3]),
    "split writes two outputs into one buffer": view_of([X, ("split", 0, [(0, READ)], [1, 1])], [2]),
    "x is to outlive the step, in whose buffer a is by then": view_of([X, kernel("a", 0, buffer=0)], [1]),
    "second adds to a buffer that does not hold what it is to be added to": sum_of(
        FIRST, kernel("other", buffer=0), SECOND, kernel("total", 0, 2, buffer=0)
    ),
    "total is left out, but second is not added in its buffer": sum_of(FIRST, SECOND, kernel("total", 0, 1, buffer=1)),
}


@pytest.mark.parametrize(("problem", "view"), BROKEN.items(), ids=BROKEN)
def test_each_broken_rule_is_named(problem, view):
    assert problem in _mxnet.check_engine_view(view)


def test_fixed_gamma_is_changed():
    """MXNet's BatchNorm writes ones over a fixed gamma while another worker may fetch it."""
    graph = JsonGraph()
    names = ("data", "gamma", "beta", "mean", "var")
    inputs = [graph.add("null", name, group="w0", __shape__=(2, 3) if name == "data" else (3,)) for name in names]
    norm = graph.add("BatchNorm", "norm", inputs, group="w0", fix_gamma=True)
    fetch = graph.fetch("read", [inputs[1]], (3,), [((0,), (3,), [(0, (0,))])], "w1", dtype=0)
    symbol = graph.symbol(norm, fetch)
    assert _mxnet.PlannedGraph(symbol.handle.value, {}, dict.fromkeys(names, 0)).problems() == [
        "norm and read use gamma at the same time, and one changes it"
    ]


@pytest.mark.parametrize("given", [False, True])
def test_moving_statistics_are_changed_unless_global(given):
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=False, use_global_stats=given, name="norm")
    net = mx.sym.MakeLoss(mx.sym.sin(mx.sym.sin(net)))
    executor = tofu.bind(tofu.partition(net, 2, hints={"norm_backward": "c"}), data=(4, 6))
    nodes = _mxnet.nodes(executor.partition.training.symbol.handle.value)
    changed = [node["mutable_inputs"] for node in nodes if node["op"] == "_tofu_clone__backward_BatchNorm"]
    assert changed == 2 * [[] if given else [6, 7]]
