"""Coarsening ties what it should, and loses nothing."""

import pytest

from tests.search.random_graphs import GraphSpec, elementwise, matmul, random_graph, update
from tofu import _core


@pytest.mark.parametrize("factors", [[2], [3]])
def test_coarsening_is_lossless(factors):
    for seed in range(300):
        spec = random_graph(3000 + seed, largest=9)
        for operator in spec.operators:  # an operator that shares its choice is not free to follow its own tensors
            operator.group, operator.same_as = spec.operators.index(operator), -1
        free = _core.search_recursive(spec.native(), factors)
        tied = _core.search_recursive(spec.native(coarsen=True), factors)
        assert tied.step_bytes == free.step_bytes, f"seed {seed}"
        assert tied.num_variables <= free.num_variables


@pytest.mark.parametrize("repeats", [False, True])
def test_coarsening_is_lossless_where_everything_may_be_replicated(repeats):
    tied_tensors = 0
    for seed in range(150):
        spec = random_graph(5000 + seed, largest=9, operators=(3, 6))
        for operator in spec.operators:
            operator.group, operator.same_as = spec.operators.index(operator), -1
        spec.repeats = repeats
        best = []
        for coarsen in (False, True):
            native = spec.native(coarsen)
            for tensor in range(len(spec.tensors)):
                native.hold(tensor, 0.0)
            found = _core.search_exact(native, [2, 2])
            assert found.is_optimal
            best.append(sum(found.plan.step_bytes))
        assert best[0] == best[1], f"seed {seed}"
        tied_tensors += len(ties(spec))
    assert tied_tensors >= 20


def ties(spec):
    """Sets of tensors that coarsening ties."""
    graph = spec.native(coarsen=True)
    classes = {}
    for tensor in range(len(spec.tensors)):
        classes.setdefault(graph.tensor_class(tensor), set()).add(tensor)
    return [c for c in classes.values() if len(c) > 1]


def two_products(replicable=False):
    spec = GraphSpec()
    x, w = spec.tensor((8, 8)), spec.tensor((8, 8))
    return spec, matmul(spec, x, w, replicable=replicable), matmul(spec, x, w, replicable=replicable)


def test_unary_ties_its_input_to_its_output():
    spec, y, _ = two_products()
    z = elementwise(spec, [y])
    spec.outputs.append(z)
    assert ties(spec) == [{y, z}]


def test_join_ties_its_inputs_to_each_other():
    spec, y, z = two_products()
    spec.outputs.append(elementwise(spec, [y, z]))
    assert ties(spec) == [{y, z}]


def test_an_input_of_which_the_shape_alone_is_used_does_not_count():
    spec, y, z = two_products()
    w = elementwise(spec, [y, z])
    spec.operators[-1].reads[0].is_read = False
    spec.outputs += [w, elementwise(spec, [y])]
    assert ties(spec) == [{y, spec.outputs[-1]}, {z, w}]


@pytest.mark.parametrize("second_use", ["reader", "output", "update", "replicable"])
def test_tensors_that_somebody_else_looks_at_stay_free(second_use):
    spec, y, z = two_products(replicable=second_use == "replicable")
    spec.outputs.append(elementwise(spec, [y]))
    if second_use == "reader":
        matmul(spec, y, z)
    elif second_use == "output":
        spec.outputs.append(y)
    elif second_use == "update":
        update(spec, y, z)
    assert ties(spec) == []
