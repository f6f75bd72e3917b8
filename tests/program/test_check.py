import re

import pytest

from tests.program.written import encode, list_nodes
from tofu.errors import InternalError
from tofu.program import NodeKind, check_program

NUMBER, WORKER, PHASE, SHAPES, INPUTS, PIECES = range(1, 7)
REMOTE_BYTES = 2 * 4 * 3 * 4


def test_a_right_program_passes():
    check_program(encode(list_nodes()), REMOTE_BYTES)
    for planned in (90, 100):
        with pytest.raises(InternalError, match=f"reads 96 bytes from other workers, its plan counts {planned}"):
            check_program(encode(list_nodes()), planned)


def repeat_a_copy(nodes):
    nodes[5][WORKER], nodes[5][INPUTS] = 0, [(2, 0), (2, 0)]


def flatten_a_variable(nodes):
    nodes[1] = [NodeKind.VARIABLE, 0, 1, 0, [(12,)], [], [], 0.0, [(4,)]]
    for node in nodes[2:4]:
        node[PIECES].pop()


def read_ahead(nodes):
    nodes[2:4], nodes[4:] = nodes[4:], nodes[2:4]
    for node in nodes[2:4]:
        node[INPUTS] = [(n + 2, output) for n, output in node[INPUTS]]


def write_cells_of_the_next_piece_but_one(nodes):
    nodes[2][PIECES] = [
        [(0, 0), (2, 3), [(0, (0, 0))]],
        [(4, 0), (4, 3), [(1, (0, 0))]],
        [(1, 0), (2, 3), [(0, (1, 0))]],
    ]


HALF = [(0, 0), (4, 3)]
UNKNOWN = "a worker, a phase, a tensor or an operator that does not exist"
UNLIKE_OPERATOR = "other inputs, outputs or another phase than its operator"
COPIES = "twice on one worker, or not on every one"
MESSAGES = [
    ((2, WORKER, 2), f"{UNKNOWN}: node 2"),
    ((4, PHASE, 3), f"{UNKNOWN}: node 4"),
    ((4, NUMBER, 1), f"{UNKNOWN}: node 4"),
    ((5, INPUTS, [(3, 0)]), f"{UNLIKE_OPERATOR}: node 5"),
    ((4, SHAPES, [(8, 3), (8, 3)]), f"{UNLIKE_OPERATOR}: node 4"),
    ((4, PHASE, 1), f"{UNLIKE_OPERATOR}: node 4"),
    (repeat_a_copy, f"{COPIES}: node 4, 5"),
    (list.pop, f"{COPIES}: node 4"),
    ((1, WORKER, 0), f"{COPIES}: node 0, 1"),
    ((0, NUMBER, 1), "a variable that an operator writes: node 0"),
    (flatten_a_variable, "other dimensions than its tensor: node 1"),
    (read_ahead, "reads what is written later: node 2, 3"),
    ((4, INPUTS, [(2, 0), (4, 0)]), "reads what is written later: node 4"),
    ((5, INPUTS, [(3, 0), (2, 0)]), "reads another worker's memory without a fetch: node 5"),
    ((2, PIECES, [[(-1, 0), (4, 3), [(0, (0, 0))]]]), "a piece outside its region: node 2"),
    ((2, PIECES, [[(5, 0), (4, 3), [(1, (0, 0))]]]), "a piece outside its region: node 2"),
    ((2, PIECES, [[(0, 0), (0, 3), [(0, (0, 0))]]]), "a piece outside its region: node 2"),
    ((3, PIECES, [[*HALF, [(0, (-1, 0))]]]), "a piece outside its source: node 3"),
    ((3, PIECES, [[*HALF, [(0, (1, 0))]]]), "a piece outside its source: node 3"),
    ((3, PIECES, [[*HALF, []]]), "a piece without a source: node 3"),
    (
        (2, PIECES, [[*HALF, [(0, (0, 0))]], [(3, 2), (4, 1), [(1, (0, 2))]]]),
        "two pieces that write one element: node 2",
    ),
    (write_cells_of_the_next_piece_but_one, "two pieces that write one element: node 2"),
    ((2, PIECES, [[(4, 0), (4, 3), [(0, (0, 0))]]]), "elements from another place of the tensor: node 2"),
    ((3, PIECES, [[(1, 0), (3, 3), [(0, (1, 0))]]]), "elements that no piece writes: node 3"),
    ((2, NUMBER, 2), "elements of another size than its source: node 2"),
]


@pytest.mark.parametrize(("defect", "message"), MESSAGES)
def test_broken_rules_are_found(defect, message):
    nodes = list_nodes()
    if callable(defect):
        defect(nodes)
    else:
        node, field, value = defect
        nodes[node][field] = value
    outputs = [(n, 0) for n, node in enumerate(nodes) if node[0] is NodeKind.OPERATOR]
    with pytest.raises(InternalError, match=f"  - {re.escape(message)}$".replace("$", r"(\n|\Z)")):
        check_program(encode(nodes, outputs))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([(4, 0)], "1 entries for 1 results on 2 workers"),
        ([(5, 0), (4, 0)], "result y has no shard on some worker"),
        ([(2, 0), (3, 0)], "result y has no shard on some worker"),
    ],
)
def test_wrong_results_are_found(outputs, message):
    with pytest.raises(InternalError, match=message):
        check_program(encode(list_nodes(), outputs))


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([[(0, 0), (4, 3), [(0, (0, 0), (0,))]]], "node 2 has 2 dimensions, and a piece of it others"),  # too few
        ([[(0, 0), (4, 3), [(0, (0, 0), (1, 0))]]], "node 2 has 2 dimensions, and a piece of it others"),  # transposed
        ([[(0, 0), (4, 3), [(0, (0, 0), (0, 2))]]], "node 2 has 2 dimensions, and a piece of it others"),  # beyond them
        ([[(0, 0), (1, 3), [(0, (0,), (1,))]]], "node 2 reads 1 dimensions of an entry that has 2"),
        ([[(0, 0), (4, 3), [(0, (0, 0, 0), (0, -1, 1))]]], "node 2 reads 3 dimensions of an entry that has 2"),
    ],
)
def test_wrong_dimensions_of_sources_are_found(pieces, message):
    nodes = list_nodes()
    nodes[2][PIECES] = pieces
    with pytest.raises(InternalError, match=message):
        check_program(encode(nodes))


def test_a_missing_output_of_a_node_is_found():
    with pytest.raises(InternalError, match="The program cannot be read: there is no output 1 of a node 0"):
        check_program(encode(list_nodes(), [(0, 1)]))
