import random

import numpy as np
import pytest

from tests.search.plans import draw_plan, list_rows
from tests.search.programs import check_plan, read_program
from tests.search.random_graphs import GraphSpec, RandomRead, Written, elementwise, matmul, random_graph, row, update
from tofu import _core
from tofu.program import NodeKind


@pytest.mark.parametrize("factors", [(2,), (3, 2), (2, 2, 2)])
def test_programs_of_random_plans(factors):
    rng = random.Random(sum(factors))
    for seed in range(60):
        spec = random_graph(500 + seed, largest=7)
        check_plan(spec, factors, *list_rows(_core.search_recursive(spec.native(), list(factors))), seed)
        operators, tensors = draw_plan(rng, spec, factors, replicate=rng.choice([0.0, 0.4]))
        check_plan(spec, factors, operators, tensors, seed)
        spec.stages_small_sums = True
        check_plan(spec, factors, operators, tensors, seed)


@pytest.mark.parametrize("factors", [(2,), (3, 2), (2, 2, 2)])
def test_kept_tensors_are_fetched_once(factors):
    rng = random.Random(sum(factors))
    saved = 0
    for seed in range(60):
        spec = random_graph(700 + seed, largest=7)
        plan = draw_plan(rng, spec, factors, replicate=0.2)
        tensors = range(len(spec.tensors))
        check_plan(spec, factors, *plan, seed, [t for t in tensors if rng.random() < 0.5])
        native, arrays = spec.native(), [np.array(choices) for choices in plan]
        plain = _core.evaluate(native, list(factors), *arrays).total_bytes
        weighed = _core.weigh_keeping(native, list(factors), *arrays)
        for tensor in tensors:
            kept = _core.evaluate(native, list(factors), *arrays, kept=[tensor]).total_bytes
            assert weighed[tensor][0] == plain - kept
            assert weighed[tensor][1] >= weighed[tensor][0]
            saved += plain - kept
    assert saved > 0


@pytest.mark.parametrize("factors", [(2,), (3, 2), (2, 2, 2)])
def test_reread_tensors_are_fetched_by_every_reader(factors):
    """Compare with a graph in which every operator is its own group."""
    rng = random.Random(sum(factors))
    added = 0
    for seed in range(60):
        spec = random_graph(700 + seed, largest=7)
        plan = draw_plan(rng, spec, factors, replicate=0.2)
        check_plan(spec, factors, *plan, seed, reread=[t for t in range(len(spec.tensors)) if rng.random() < 0.5])
        arrays = [np.array(choices) for choices in plan]
        shared = _core.evaluate(spec.native(), list(factors), *arrays).total_bytes
        every = list(range(len(spec.tensors)))
        again = _core.evaluate(spec.native(), list(factors), *arrays, reread=every).total_bytes
        for number, operator in enumerate(spec.operators):
            operator.group = number
        assert again == _core.evaluate(spec.native(), list(factors), *arrays).total_bytes
        added += again - shared
    assert added > 0


def make_chain():
    spec = GraphSpec()
    x, w = spec.tensor((8, 8)), spec.tensor((8, 8))
    z = elementwise(spec, [matmul(spec, x, w)])
    spec.outputs.append(z)
    update(spec, w, elementwise(spec, [w], phase=1))
    return spec


def test_equal_regions_with_different_contents_are_fetched_apart():
    spec = GraphSpec()
    x, bias = spec.tensor((4, 8)), spec.tensor((8,))
    halo = row(1, lower=-1, upper=2)
    for fill, addend_axes in ((1.0, []), (2.0, []), (2.0, [1])):
        y = spec.tensor((4, 8))
        reads = [RandomRead(x, [row(0), halo], fill=fill), RandomRead(bias, [row()], addend_axes)]
        spec.operator(
            [4, 8], reads, [Written(y, [row(0), row(1)], [0, 0])], group=0, same_as=0 if spec.operators else -1
        )
        spec.outputs.append(y)
    # The bias; the bias and whole rows of x; two halos, the bias, and zeros on worker 1.
    for choice, layout, fetches in (((0,), (0,), 2), ((0,), (1,), 2 + 2), ((1,), (0,), 4 + 2 + 1)):
        nodes = check_plan(spec, (2,), [choice] * 3, [layout, (0,), choice, choice, choice], 0)
        assert sum(n.kind is NodeKind.FETCH for n in nodes) == fetches


def test_partial_sums_of_a_large_replica_are_scattered_first():
    """Move 6 S instead of 12 S for a tensor of S bytes on 4 workers."""
    spec = GraphSpec()
    x, w = spec.tensor((8, 8)), spec.tensor((8, 8))
    spec.outputs.append(matmul(spec, x, w))
    plan = [(2, 2)], [(1, 1), (1, 1), (-1, -1)]
    nodes = check_plan(spec, (2, 2), *plan, 0)
    assert [n.shapes[0] for n in nodes if n.kind is NodeKind.FETCH] == [(2, 8)] * 4 + [(8, 8)] * 4
    spec.tensors[2].replicable = True
    nodes = check_plan(spec, (2, 2), *plan, 0)
    assert [n.shapes[0] for n in nodes if n.kind is NodeKind.FETCH] == [(8, 8)] * 4


def test_the_forward_program_has_forward_operators_only():
    spec = make_chain()
    arrays = np.zeros((4, 1)), np.zeros((5, 1))
    code = _core.emit(spec.native(), [2], *arrays, [0], [(3, None)])
    program = read_program(spec, [2], code, [(3, None)])
    assert {n.id for n in program.nodes if n.kind is NodeKind.OPERATOR} == {0, 1}
    assert len(program.output_entries) == 2
    message = r"tensor 4 is used by the list of outputs, but operator 2 of phase 1, which produces it"
    with pytest.raises(ValueError, match=message):
        _core.emit(spec.native(), [2], *arrays, [0], [(4, None)])


@pytest.mark.parametrize(
    ("phases", "requests", "message"),
    [([3], [], "phase 3"), ([0], [(3, [])], "0 choice"), ([0], [(3, [2])], "choice 2"), ([0], [(9, None)], "tensor 9")],
)
def test_wrong_requests_are_refused(phases, requests, message):
    with pytest.raises(ValueError, match=message):
        _core.emit(make_chain().native(), [2], np.zeros((4, 1)), np.zeros((5, 1)), phases, requests)


def test_tensors_written_in_place_must_be_the_shard():
    spec = GraphSpec()
    x, state = spec.tensor((8, 8)), spec.tensor((8,), replicable=True)
    y = spec.tensor((8, 8))
    reads = [RandomRead(x, [row(0), row(1)]), RandomRead(state, [row(1)], is_held=True)]
    spec.operator([8, 8], reads, [Written(y, [row(0), row(1)], [0, 0])])
    graph = spec.native()
    for axis, layout in ((0, -1), (1, 0)):
        result = _core.search_recursive(graph, [2], {0: [axis]})
        assert result.tensors[state].tolist() == [layout]
    wrong = np.array([[1]]), np.array([[0], [-1], [0]])
    for call in (_core.evaluate, lambda *a: _core.emit(*a, [0], [(y, None)])):
        with pytest.raises(ValueError, match="operator 0 writes tensor 1 in place"):
            call(graph, [2], *wrong)
