import re

import numpy as np
import pytest

from tests.search.random_graphs import GraphSpec, RandomRead, Written, matmul, row
from tofu import _core

IDENTITY = [row(0), row(1)]


def make_product():
    spec = GraphSpec()
    x, w = spec.tensor((4, 6)), spec.tensor((8, 6))
    spec.outputs.append(matmul(spec, x, w))
    return spec


@pytest.mark.parametrize(
    ("shape", "item_bytes", "message"),
    [
        ((4, 0), 4, "tensor 0 has shape [4, 0]: every extent must be positive"),
        ((4,), 0, "tensor 0 has elements of 0 bytes: must be positive"),
        ((2**31, 2**31, 4), 4, "tensor 0 of shape [2147483648, 2147483648, 4] has elements of 4 bytes: more than 2^61"),
    ],
)
def test_malformed_tensors_are_refused(shape, item_bytes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        _core.Graph().add_tensor(shape, item_bytes, False, 0)


MALFORMED = {
    "operator 1 has axes [4, 0]: every extent must be positive": {"extents": [4, 0]},
    "operator 1, input 0 has 1 rows for tensor 0 of rank 2: one row per": {"reads": [RandomRead(0, [row(0)])]},
    "operator 1, input 0, dimension 1 names axis 2: the operator has 2": {"reads": [RandomRead(0, [row(0), row(2)])]},
    "input 0, dimension 0: upper 0 must be greater than lower 0": {"reads": [RandomRead(0, [row(0, upper=0), row(1)])]},
    "operator 1, input 0 is an addend of axis 5: the operator has 2 axes": {"reads": [RandomRead(0, IDENTITY, [5])]},
    "tensor 9 does not exist: the graph has tensors 0 to 3": {"reads": [RandomRead(9, IDENTITY)]},
    "operator 1, output 0 says for 1 axes how parts come together": {"written": [Written(3, IDENTITY, [0])]},
    "combine 4 is none of CONCAT": {"written": [Written(3, IDENTITY, [0, 4])]},
    "operator 1, output 0: tensor 2 is already produced by operator 0": {"written": [Written(2, IDENTITY, [0, 0])]},
    "operator 1, output 0: tensor 1 is used before it is produced": {"written": [Written(1, IDENTITY, [0, 0])]},
    "operator 1 has phase 3": {"phase": 3},
    "operator 1 follows a tensor and has outputs: updates have none": {"follows": 0, "extents": [4, 6]},
    "operator 1 of axes [4, 8] follows tensor 0 of shape [4, 6]: they must be equal": {"follows": 0},
    "operator 1 of axes [4, 8] shares the choice of operator 0 of axes [4, 8, 6]": {"same_as": 0},
    "operator 1 of axes [4, 8] is in group 0 with operator 0 of axes [4, 8, 6]: operators that share": {"group": 0},
    "operator 1 is fetched along axis 5: ": {"fetched": [5]},
    "tensor 2 of rank 2 lacks dimension 0: no copy": {"reads": [RandomRead(2, IDENTITY, absent=(0, row(0)))]},
    "tensor 2 of rank 2 and 4 bytes is no part of tensor 3 of rank 2 and 4 bytes: cells are moved between tensors": {
        "reads": [RandomRead(2, IDENTITY, absent=(0, row(0)))],
        "fetched": [0],
    },
}


@pytest.mark.parametrize("message", MALFORMED)
def test_malformed_operators_are_refused(message):
    spec = make_product()
    spec.tensor((4, 8))
    fields = {"extents": [4, 8], "reads": [RandomRead(2, IDENTITY)], "written": [Written(3, IDENTITY, [0, 0])]}
    spec.operator(**{**fields, **MALFORMED[message]})
    with pytest.raises(ValueError, match=re.escape(message)):
        spec.native()


def test_ties_of_different_tensors_are_refused():
    spec = make_product()
    spec.tensor((8, 6), replicable=True)
    graph = spec.native()
    with pytest.raises(ValueError, match=r"tensor 0 of shape \[4, 6\] cannot be tied to tensor 1 of shape \[8, 6\]"):
        graph.tie_tensors(0, 1)
    with pytest.raises(ValueError, match="tensor 1 and tensor 3 cannot be tied: one of them is replicable"):
        graph.tie_tensors(1, 3)


def test_all_infeasible_hints_are_listed():
    with pytest.raises(ValueError, match="hints that cannot be met in 2 parts") as caught:
        _core.search_recursive(make_product().native(), [2], {0: [3]}, {0: [2], 1: [0]})
    assert "operator 0 is fixed to 3 in round 0, where it can take one of [0, 1, 2]" in str(caught.value)
    assert "tensor 0 is fixed to 2 in round 0, where it can take one of [0, 1]" in str(caught.value)
    assert "tensor 1" not in str(caught.value)
    kept = _core.search_recursive(make_product().native(), [2, 2], {0: [2, -2]}, {2: [-1, -2]})
    assert (kept.operators[0, 0], kept.tensors[2, 0]) == (2, -1)
    for factors, message in (([1], "at least 2 parts"), ([2] * 20, "more than 65536 workers")):
        with pytest.raises(ValueError, match=message):
            _core.search_recursive(make_product().native(), factors)


@pytest.mark.parametrize(
    ("operators", "tensors", "message"),
    [
        ([[0]], [[0], [0]], "the plan has 1 operators and 2 tensors, the graph has 1 and 3"),
        ([[0, 0]], [[0], [0], [0]], "operator 0 has 2 choices: one for each of 1 rounds"),
        ([[3]], [[0], [0], [0]], "operator 0 has choice 3 in round 0: it has dimensions 0 to 2"),
        ([[0]], [[0], [0], [2]], "tensor 2 has choice 2 in round 0"),
    ],
)
def test_plans_of_another_graph_are_refused(operators, tensors, message):
    with pytest.raises(ValueError, match=message):
        _core.evaluate(make_product().native(), [2], np.array(operators), np.array(tensors))


def test_a_dimension_is_split_while_its_smallest_part_suffices():
    graph = make_product().native()
    assert _core.feasible_choices(graph, [2, 2, 2], "tensor", 0, [0]) == [0, 1]
    assert _core.feasible_choices(graph, [2, 2, 2], "tensor", 0, [0, 0]) == [1]
    assert _core.feasible_choices(graph, [3, 2, 2], "operator", 0, [0, 2]) == [1, 2]
    assert _core.feasible_choices(graph, [3, 3, 3, 2], "tensor", 0, [0, 1, -1]) == [1]
    with pytest.raises(ValueError, match=r"tensor 0 of extents \[4, 6\] cannot be split along 0 in round 2: its"):
        _core.worker_boxes(graph, [2, 2, 2], "tensor", 0, [0, 0, 0])
