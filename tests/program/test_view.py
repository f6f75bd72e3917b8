import numpy as np

from tests.program.written import encode, list_nodes
from tofu.graph import Phase
from tofu.program import Entry, Node, NodeKind, Piece, PieceSource

HALVES = (
    Piece((0, 0), (4, 3), (PieceSource(0, (0, 0), (0, 1)),)),
    Piece((4, 0), (4, 3), (PieceSource(1, (0, 0), (0, 1)),)),
)


def test_nodes_are_decoded():
    program = encode(list_nodes())
    assert program.nodes[0] == Node(NodeKind.VARIABLE, 0, 0, Phase.FORWARD, ((4, 3),), begins=((0, 0),))
    assert program.nodes[3] == Node(
        NodeKind.FETCH, 0, 1, Phase.FORWARD, ((8, 3),), (Entry(0, 0), Entry(1, 0)), HALVES, begins=((0, 0),)
    )
    assert program.nodes[4] == Node(
        NodeKind.OPERATOR, 0, 0, Phase.FORWARD, ((8, 3),), (Entry(2, 0), Entry(2, 0)), begins=((0, 0),)
    )
    assert program.results == ((Entry(4, 0), Entry(5, 0)),)
    assert program.transit == {Entry(2, 0), Entry(3, 0)}
    assert program.remote_bytes == 2 * 4 * 3 * 4


def test_fetches_with_fills_and_sums_are_decoded():
    nodes = list_nodes()
    nodes.append([NodeKind.VARIABLE, 2, 1, 0, [(5,)], [], [], 0.0])
    nodes.append([NodeKind.FETCH, 2, 0, 2, [(7,)], [(6, 0), (6, 0)], [[(1,), (3,), [(0, (2,)), (1, (0,))]]], -np.inf])
    nodes.append([NodeKind.FETCH, 2, 1, 1, [()], [], [], 1.5])
    program = encode(nodes, [(4, 0), (5, 0), (8, 0)])
    assert program.nodes[7] == Node(
        NodeKind.FETCH,
        2,
        0,
        Phase.UPDATE,
        ((7,),),
        (Entry(6, 0), Entry(6, 0)),
        (Piece((1,), (3,), (PieceSource(0, (2,), (0,)), PieceSource(1, (0,), (0,)))),),
        -np.inf,
        ((0,),),
    )
    assert program.nodes[8] == Node(NodeKind.FETCH, 2, 1, Phase.BACKWARD, ((),), fill=1.5, begins=((),))
    assert program.output_entries == (Entry(4, 0), Entry(5, 0), Entry(8, 0))
    assert program.remote_bytes == 2 * 4 * 3 * 4 + 2 * 3 * 8
