"""One graph has one plan: ids, names and the order of the nodes do not matter."""

import random
from dataclasses import replace

import pytest

from tests.search.random_graphs import GraphSpec, OperatorSpec, elementwise, matmul, random_graph
from tests.search.test_cost import rows_of
from tofu import _core


def shuffle(spec, rng):
    """The same graph, renumbered and in another topological order; also both maps, old id -> new id."""
    tensor_ids = list(range(len(spec.tensors)))
    rng.shuffle(tensor_ids)
    tensor_map = {old: new for new, old in enumerate(tensor_ids)}
    operator_ids = []
    waiting = list(range(len(spec.operators)))
    while waiting:
        ready = [i for i in waiting if not needs(spec, i) & set(waiting)]
        operator_ids.append(rng.choice(ready))
        waiting.remove(operator_ids[-1])
    operator_map = {old: new for new, old in enumerate(operator_ids)}
    groups = {g: rng.randrange(10**6) for g in {o.group for o in spec.operators}}
    shuffled = GraphSpec([spec.tensors[i] for i in tensor_ids], [], [tensor_map[t] for t in spec.outputs])
    for old in operator_ids:
        o = spec.operators[old]
        shuffled.operators.append(
            OperatorSpec(
                o.extents,
                [replace(r, tensor=tensor_map[r.tensor]) for r in o.reads],
                [replace(w, tensor=tensor_map[w.tensor]) for w in o.written],
                o.phase,
                groups[o.group],
                o.label,
                tensor_map.get(o.follows, -1),
                operator_map.get(o.same_as, -1),
                o.fetched,
            )
        )
    return shuffled, operator_map, tensor_map


def needs(spec, position):
    """Operators that must come before this one."""
    operator = spec.operators[position]
    tensors = {operator.follows, *(r.tensor for r in operator.reads)}
    producers = {i for i, o in enumerate(spec.operators) if tensors & {w.tensor for w in o.written}}
    return producers | {operator.same_as}


@pytest.mark.parametrize("factors", [(2,), (3, 2), (2, 2, 2)])
def test_shuffled_graphs_have_the_same_plan(factors):
    rng = random.Random(5)
    for seed in range(60):
        spec = random_graph(2000 + seed, largest=12)
        operators, tensors = rows_of(_core.search_recursive(spec.native(), list(factors)))
        shuffled, operator_map, tensor_map = shuffle(spec, rng)
        result = _core.search_recursive(shuffled.native(), list(factors))
        new_operators, new_tensors = rows_of(result)
        assert [new_operators[operator_map[i]] for i in range(len(operators))] == operators, f"seed {seed}"
        assert [new_tensors[tensor_map[i]] for i in range(len(tensors))] == tensors, f"seed {seed}"


def network(order):
    """Two towers that differ in depth alone, built in either order."""
    spec = GraphSpec()
    x = spec.tensor((32, 32))
    ends = {}
    for depth in order:
        y = x
        for _ in range(depth):
            y = elementwise(spec, [matmul(spec, y, spec.tensor((32, 32)))])
        ends[depth] = y
    spec.outputs.append(elementwise(spec, [ends[1], ends[3]]))
    return spec


def test_the_order_of_towers_does_not_matter():
    plans = []
    for order in ((1, 3), (3, 1)):
        spec = network(order)
        operators, _ = rows_of(_core.search_recursive(spec.native(), [2, 2]))
        length = 2 if order[0] == 1 else 6
        towers = [operators[:length], operators[length:-1]]
        plans.append((towers if order[0] == 1 else towers[::-1], operators[-1]))
    assert plans[0] == plans[1]


def test_shuffled_ties_have_the_same_plan():
    """Square matrices alone: plans of equal cost everywhere."""
    rng = random.Random(6)
    spec = network((1, 3))
    operators, tensors = rows_of(_core.search_recursive(spec.native(), [2, 2]))
    for _ in range(50):
        shuffled, operator_map, tensor_map = shuffle(spec, rng)
        new_operators, new_tensors = rows_of(_core.search_recursive(shuffled.native(), [2, 2]))
        assert [new_operators[operator_map[i]] for i in range(len(operators))] == operators
        assert [new_tensors[tensor_map[i]] for i in range(len(tensors))] == tensors
