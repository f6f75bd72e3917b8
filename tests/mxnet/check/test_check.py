import mxnet as mx
import pytest

import tofu
from tests.shared.json_graph import JsonGraph
from tofu import _mxnet
from tofu.errors import InternalError
from tofu.mxnet.check.execution import check_execution, check_traffic

HALVES = [((0, 0), (2, 3), [(0, (0, 0))]), ((2, 0), (2, 3), [(1, (0, 0))])]


def assemble(pieces=HALVES, region=(4, 3), reader="w0"):
    graph = JsonGraph()
    shards = [graph.add("null", f"x@{w}", group=f"w{w}", __shape__=(2, 3), __dtype__=0) for w in range(2)]
    fetch = graph.fetch("x@0#2", shards, region, pieces, "w0", dtype=0)
    return graph.symbol(graph.add("relu", "relu", [fetch], group=reader))


def plan(symbol):
    return _mxnet.PlannedGraph(symbol.handle.value, {}, {})


def problems_of(symbol, output=(4, 3)):
    with pytest.raises(InternalError) as error:
        check_execution(plan(symbol), [output])
    return [line.removeprefix("  - ") for line in str(error.value).split("\n") if line.startswith("  - ")]


def test_bytes_differ_from_the_plan():
    check_execution(plan(assemble()), [(4, 3)])
    check_traffic(plan(assemble()), 24)
    with pytest.raises(InternalError, match="reads 24 bytes from other workers, its plan counts 48"):
        check_traffic(plan(assemble()), 48)


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        (
            [((0, 0), (2, 2), [(0, (0, 0))]), ((2, 0), (1, 1), [(1, (0, 0))]), ((1, 1), (2, 1), [(1, (0, 0))])],
            "cells are written twice, by the pieces ((0, 2), (0, 2)) and ((1, 3), (1, 2))",
        ),
        (
            [((0, 0), (1, 3), [(0, (0, 0))]), ((1, 1), (1, 1), [(0, (1, 1))]), ((0, 2), (1, 1), [(0, (0, 2))])],
            "cells are written twice, by the pieces ((0, 1), (0, 3)) and ((0, 1), (2, 3))",
        ),
        (
            [*HALVES, ((3, 0), (0, 3), [(0, (0, 0))])],
            "the piece ((3, 3), (0, 3)) is empty or leaves the region of shape [4,3]",
        ),
    ],
    ids=["overlap", "overlap of distant pieces", "empty"],
)
def test_wrong_pieces_are_named(pieces, problem):
    assert problems_of(assemble(pieces)) == [f"x@0#2: {problem}"]


def test_sources_outside_of_their_shard():
    with pytest.raises(RuntimeError, match="reads outside of input 0"):
        plan(assemble([((0, 2), (3, 1), [(0, (0, 0))])]))


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("w1", ["relu (w1) reads x@0#2 of another worker without a fetch"]),
        (None, ["relu belongs to no worker", "relu (no worker) reads x@0#2 of another worker without a fetch"]),
    ],
)
def test_nodes_on_other_workers(reader, expected):
    assert problems_of(assemble(reader=reader)) == expected


def test_outputs_of_another_shape():
    assert problems_of(assemble(), (3, 4)) == ["relu: an output has shape (4, 3), the plan says (3, 4) (12 elements)"]


def test_runs_before_every_bind(monkeypatch):
    broken = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    monkeypatch.setattr(
        "tofu.mxnet.check.execution._compare_outputs", lambda found, expected: ["fc is broken"] if expected else []
    )
    symbol = tofu.partition(broken, 2, data=(4, 6), cache=False)
    with pytest.raises(InternalError, match="fc is broken"):
        symbol.simple_bind(mx.cpu(), data=(4, 6))
    monkeypatch.setenv("TOFU_CHECK", "0")
    symbol = tofu.partition(broken, 2, data=(4, 6), cache=False)
    executor = symbol.simple_bind(mx.cpu(), data=(4, 6))
    executor.forward(is_train=True)
    monkeypatch.delenv("TOFU_CHECK")
    with pytest.raises(InternalError, match="fc is broken"):
        executor.forward(is_train=False)
