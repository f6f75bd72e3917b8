"""Every rule of programs is broken once, and the check names it with its node."""

import re
from dataclasses import replace

import pytest

from tests.program.written import GRAPH, encode, list_nodes
from tofu.errors import InternalError
from tofu.program import NodeKind, check_program

PHASE, WORKER, SHAPES, INPUTS, PIECES = 3, 2, 4, 5, 6
REMOTE_BYTES = 2 * 4 * 3 * 4  # each worker reads the other's half


def test_a_program_that_keeps_all_rules():
    check_program(encode(list_nodes()), REMOTE_BYTES)


def test_a_tensor_that_no_node_has_may_have_more_dimensions():
    program = encode(list_nodes())
    unused = replace(GRAPH.tensors[0], name="unused", shape=(2, 3, 4, 5))
    check_program(replace(program, graph=replace(GRAPH, tensors=(*GRAPH.tensors, unused))), REMOTE_BYTES)


@pytest.mark.parametrize("planned", [90, 100])
def test_bytes_that_the_plan_does_not_count(planned):
    with pytest.raises(
        InternalError, match=f"The program reads 96 bytes from other workers, its plan counts {planned}"
    ):
        check_program(encode(list_nodes()), planned)


def set_worker(nodes):
    nodes[2][WORKER] = 2


def set_phase(nodes):
    nodes[4][PHASE] = 3


def set_number(nodes):
    nodes[4][1] = 1


def drop_input(nodes):
    nodes[5][INPUTS] = nodes[5][INPUTS][:1]


def add_output(nodes):
    nodes[4][SHAPES] = [(8, 3), (8, 3)]


def run_in_another_phase(nodes):
    nodes[4][PHASE] = 1


def repeat_a_copy(nodes):
    nodes[5][WORKER], nodes[5][INPUTS] = 0, [(2, 0), (2, 0)]


def leave_a_worker_out(nodes):
    nodes.pop()


def repeat_a_variable(nodes):
    nodes[1][WORKER] = 0


def declare_a_result(nodes):
    nodes[0][1] = 1


def flatten_a_variable(nodes):
    nodes[1] = [NodeKind.VARIABLE, 0, 1, 0, [(12,)], [], [], 0.0, [(4,)]]
    for node in nodes[2:4]:
        node[PIECES].pop()


def read_ahead(nodes):
    nodes[2:4], nodes[4:] = nodes[4:], nodes[2:4]
    for node in nodes[2:4]:
        node[INPUTS] = [(n + 2, output) for n, output in node[INPUTS]]


def read_itself(nodes):
    nodes[4][INPUTS][1] = (4, 0)


def read_across(nodes):
    nodes[5][INPUTS] = [(3, 0), (2, 0)]


def begin_before_the_region(nodes):
    nodes[2][PIECES][0] = [(-1, 0), (4, 3), [(0, (0, 0))]]


def end_after_the_region(nodes):
    nodes[2][PIECES][1] = [(5, 0), (4, 3), [(1, (0, 0))]]


def fetch_nothing(nodes):
    nodes[2][PIECES][0] = [(0, 0), (0, 3), [(0, (0, 0))]]


def begin_before_the_source(nodes):
    nodes[3][PIECES][0] = [(0, 0), (4, 3), [(0, (-1, 0))]]


def end_after_the_source(nodes):
    nodes[3][PIECES][0] = [(0, 0), (4, 3), [(0, (1, 0))]]


def leave_a_piece_without_source(nodes):
    nodes[3][PIECES][0] = [(0, 0), (4, 3), []]


def write_cells_twice(nodes):
    nodes[2][PIECES][1] = [(3, 2), (4, 1), [(1, (0, 2))]]


def write_cells_of_the_next_piece_but_one(nodes):
    nodes[2][PIECES] = [
        [(0, 0), (2, 3), [(0, (0, 0))]],
        [(4, 0), (4, 3), [(1, (0, 0))]],
        [(1, 0), (2, 3), [(0, (1, 0))]],
    ]


def read_the_other_half(nodes):
    nodes[2][PIECES][1] = [(4, 0), (4, 3), [(0, (0, 0))]]


def leave_out_a_row(nodes):
    nodes[3][PIECES][0] = [(1, 0), (3, 3), [(0, (1, 0))]]


def fetch_into_other_elements(nodes):
    nodes[2][1] = 2


DEFECTS = [
    (set_worker, "a worker, a phase, a tensor or an operator that does not exist: node 2"),
    (set_phase, "a worker, a phase, a tensor or an operator that does not exist: node 4"),
    (set_number, "a worker, a phase, a tensor or an operator that does not exist: node 4"),
    (drop_input, "other inputs, outputs or another phase than its operator: node 5"),
    (add_output, "other inputs, outputs or another phase than its operator: node 4"),
    (run_in_another_phase, "other inputs, outputs or another phase than its operator: node 4"),
    (repeat_a_copy, "twice on one worker, or not on every one: node 4, 5"),
    (leave_a_worker_out, "twice on one worker, or not on every one: node 4"),
    (repeat_a_variable, "twice on one worker, or not on every one: node 0, 1"),
    (declare_a_result, "a variable that an operator writes: node 0"),
    (flatten_a_variable, "other dimensions than its tensor: node 1"),
    (read_ahead, "reads what is written later: node 2, 3"),
    (read_itself, "reads what is written later: node 4"),
    (read_across, "reads another worker's memory without a fetch: node 5"),
    (begin_before_the_region, "a piece outside its region: node 2"),
    (end_after_the_region, "a piece outside its region: node 2"),
    (fetch_nothing, "a piece outside its region: node 2"),
    (begin_before_the_source, "a piece outside its source: node 3"),
    (end_after_the_source, "a piece outside its source: node 3"),
    (leave_a_piece_without_source, "a piece without a source: node 3"),
    (write_cells_twice, "two pieces that write one element: node 2"),
    (write_cells_of_the_next_piece_but_one, "two pieces that write one element: node 2"),
    (read_the_other_half, "elements from another place of the tensor: node 2"),
    (leave_out_a_row, "elements that no piece writes: node 3"),
    (fetch_into_other_elements, "elements of another size than its source: node 2"),
]


@pytest.mark.parametrize(("spoil", "message"), DEFECTS, ids=[spoil.__name__ for spoil, _ in DEFECTS])
def test_a_rule_that_is_broken_is_named(spoil, message):
    nodes = list_nodes()
    spoil(nodes)
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
def test_results_that_are_not_there(outputs, message):
    with pytest.raises(InternalError, match=message):
        check_program(encode(list_nodes(), outputs))


@pytest.mark.parametrize("along", [(0,), (1, 0), (0, 2), (-1, 0)])
def test_sources_that_do_not_fit_their_piece(along):
    """One dimension of two; turned; one that there is not; several cells along what is not read."""
    nodes = list_nodes()
    nodes[2][PIECES][0] = [(0, 0), (4, 3), [(0, (0, 0), along)]]
    with pytest.raises(InternalError, match="node 2 has 2 dimensions, and a piece of it others"):
        check_program(encode(nodes))


@pytest.mark.parametrize(
    ("extent", "source"), [((1, 3), ((0,), (1,))), ((4, 3), ((0, 0, 0), (0, -1, 1)))], ids=["less", "more"]
)
def test_sources_of_other_dimensions_than_their_entry(extent, source):
    nodes = list_nodes()
    nodes[2][PIECES] = [[(0, 0), extent, [(0, *source)]]]
    with pytest.raises(InternalError, match=f"node 2 reads {len(source[0])} dimensions of an entry that has 2"):
        check_program(encode(nodes))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [([(6, 0)], "there is no output 0 of a node 6"), ([(0, 1)], "there is no output 1 of a node 0")],
)
def test_a_program_that_cannot_be_read(outputs, message):
    with pytest.raises(InternalError, match=f"The program cannot be read: {message}"):
        check_program(encode(list_nodes(), outputs))
