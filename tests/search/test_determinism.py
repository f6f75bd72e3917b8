import random
from dataclasses import replace

import pytest

from tests.search.plans import list_rows
from tests.search.random_graphs import GraphSpec, OperatorSpec, random_graph
from tofu import _core


def shuffle(spec, rng):
    """Return the graph renumbered in another topological order, and both maps from old to new ids."""
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
                o.nestings,
            )
        )
    return shuffled, operator_map, tensor_map


def needs(spec, position):
    operator = spec.operators[position]
    tensors = {operator.follows, *(r.tensor for r in operator.reads)}
    producers = {i for i, o in enumerate(spec.operators) if tensors & {w.tensor for w in o.written}}
    return producers | {operator.same_as}


def search_exact(graph, factors):
    return _core.search_exact(graph, factors).plan


@pytest.mark.parametrize("search", [_core.search_recursive, search_exact])
@pytest.mark.parametrize("factors", [(2,), (3, 2), (2, 2, 2)])
def test_shuffled_graphs_have_the_same_plan(factors, search):
    rng = random.Random(5)
    for seed in range(40):
        spec = random_graph(2000 + seed, largest=12 if seed % 2 else 3)
        operators, tensors = list_rows(search(spec.native(), list(factors)))
        shuffled, operator_map, tensor_map = shuffle(spec, rng)
        new_operators, new_tensors = list_rows(search(shuffled.native(), list(factors)))
        assert [new_operators[operator_map[i]] for i in range(len(operators))] == operators, f"seed {seed}"
        assert [new_tensors[tensor_map[i]] for i in range(len(tensors))] == tensors, f"seed {seed}"
