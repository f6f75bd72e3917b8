"""The checker of execution graphs names every rule that a graph breaks."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import JsonGraph

from tofu.check import check_execution, execution
from tofu.check.tables import read_tables
from tofu.errors import InternalError

HALVES = [((0, 0), (2, 3), [(0, (0, 0))]), ((2, 0), (2, 3), [(1, (0, 0))])]


def assemble(pieces=HALVES, region=(4, 3), reader="w0"):
    """A (4, 3) tensor that two workers hold by rows, fetched as a whole by the first and read there."""
    graph = JsonGraph()
    shards = [graph.add("null", f"x@{w}", group=f"w{w}", __shape__=(2, 3), __dtype__=0) for w in range(2)]
    fetch = graph.fetch("x@0#2", shards, region, pieces, "w0", dtype=0)
    return graph.symbol(graph.add("relu", "relu", [fetch], group=reader))


def problems_of(symbol, output=(4, 3)):
    with pytest.raises(InternalError) as error:
        check_execution(symbol, [output], {"x@0": (2, 3), "x@1": (2, 3)})
    return [line.removeprefix("  - ") for line in str(error.value).split("\n") if line.startswith("  - ")]


def test_accepts_a_graph_that_keeps_the_rules():
    check_execution(assemble(), [(4, 3)], {"x@0": (2, 3), "x@1": (2, 3)})


def test_cells_written_twice():
    apart = [((0, 0), (2, 2), [(0, (0, 0))]), ((2, 0), (1, 1), [(1, (0, 0))])]
    assert problems_of(assemble([*apart, ((1, 1), (2, 1), [(1, (0, 0))])])) == [
        "x@0#2: cells are written twice, by the pieces ((0, 2), (0, 2)) and ((1, 3), (1, 2))"
    ]


def test_sources_outside_of_their_shard():
    with pytest.raises(RuntimeError, match="reads outside of input 0"):  # MXNet's inference asks the fetch itself
        check_execution(assemble([((0, 2), (3, 1), [(0, (0, 0))])]), [(4, 3)], {})


def problems_of_tables(monkeypatch, **changed):
    """What the rules say of the tables of a right graph, with some columns changed: no graph of MXNet's can be so wrong."""
    symbol, shapes = assemble(), {"x@0": (2, 3), "x@1": (2, 3)}
    tables = replace(read_tables(symbol, shapes), **{name: np.array(rows) for name, rows in changed.items()})
    monkeypatch.setattr(execution, "read_tables", lambda *_: tables)
    return problems_of(symbol)


def test_sources_are_compared_with_the_shapes_that_are_there(monkeypatch):
    found = problems_of_tables(monkeypatch, source_begin=[(-1, 0), (0, 1)])
    assert found == [
        "x@0#2: it reads ((-1, 1), (0, 3)) of x@0, whose shape is (2, 3)",
        "x@0#2: it reads ((0, 2), (1, 4)) of x@1, whose shape is (2, 3)",
    ]


def test_nodes_that_run_too_early(monkeypatch):
    """Nodes are x@0, x@1, the fetch and its reader, which waits for itself here."""
    found = problems_of_tables(monkeypatch, edges=[(0, 2), (2, 1), (3, 2)], control_deps=[(3, 3)])
    assert found == [
        "x@0 reads x@0#2, which runs after it",
        "relu waits for relu, which runs after it",
    ]


def test_empty_piece():
    assert problems_of(assemble([*HALVES, ((3, 0), (0, 3), [(0, (0, 0))])])) == [
        "x@0#2: the piece ((3, 3), (0, 3)) is empty or leaves the region of shape (4, 3)"
    ]


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("w1", ["relu (w1) reads x@0#2 of another worker without a fetch"]),
        (None, ["relu belongs to no worker", "relu (no worker) reads x@0#2 of another worker without a fetch"]),
    ],
)
def test_nodes_on_other_workers(reader, expected):
    assert problems_of(assemble(reader=reader)) == expected


def test_outputs_of_another_size():
    assert problems_of(assemble(), (3, 4)) == ["relu: an output has shape (4, 3), the plan says (3, 4) (12 elements)"]
