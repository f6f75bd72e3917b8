"""Engines that need equal shards: other splits are replaced by replication, and hints for them are refused."""

import numpy as np
import pytest

from tests.numpy_engine.backend import NumpyBackend
from tests.numpy_engine.front_end import NumpyFrontEnd
from tests.numpy_engine.runs import partition_graph
from tests.numpy_engine.steps import perceptron, wide_perceptron
from tofu import core
from tofu.errors import InfeasibleError, PlanError
from tofu.search.geometry import find_shards

EVEN = core.Engine(NumpyFrontEnd(), NumpyBackend(), core.TransferRules(splits_equally=True))

OVERLAPPING = core.Engine(NumpyFrontEnd(), NumpyBackend(), core.TransferRules(splits_equally=True, overlaps=True))


def find_extents(partition):
    problem, choices = partition.problem, partition.choices
    boxes = [find_shards(problem, t, choices.layout(t)) for t in range(len(problem.graph.tensors))]
    return [np.unique(box[..., 1] - box[..., 0], axis=0) for box in boxes]


@pytest.mark.parametrize(
    "algorithm", ["recursive", "exact", "allrow-greedy", "spartan", "equalchop", "icml18", "data-parallel"]
)
@pytest.mark.parametrize("workers", [6, 8])
def test_all_shards_are_equal(algorithm, workers):
    partition = partition_graph(wide_perceptron(), workers, EVEN, algorithm=algorithm)
    assert all(len(extents) == 1 for extents in find_extents(partition))


@pytest.mark.parametrize("workers", [4, 6])
def test_shards_within_a_step_may_overlap(workers):
    """Overlapping shards have one extent; arguments and results are split without a remainder."""
    graph = perceptron(batch=121, inputs=99, hidden=91, classes=11)
    partition = partition_graph(graph, workers, OVERLAPPING)
    extents, overlapping = find_extents(partition), set()
    assert all(len(found) == 1 for found in extents)
    for t, (tensor, (extent,)) in enumerate(zip(graph.tensors, extents, strict=True)):
        layout = partition.choices.layout(t)
        parts = np.prod([f for f, d in zip(partition.problem.factors, layout, strict=True) if d >= 0])
        if extent.prod() * parts > np.prod(tensor.shape):
            overlapping.add(t)
    assert overlapping
    assert not any(graph.tensors[t].exists_before_step or t in graph.outputs for t in overlapping)


def test_splits_without_equal_parts_are_refused():
    with pytest.raises(PlanError, match="dimension 0 has extent 90, already in 2 parts; round 2 needs 2 more of each"):
        partition_graph(wide_perceptron(), 4, EVEN, hints={"weight0": 0})
    remedy = "Use a number of workers that divides 121, or a batch that 2 divides"
    with pytest.raises(InfeasibleError, match=rf"no operator has an axis left .* 2 equal parts; .*, 121\. {remedy}"):
        partition_graph(perceptron(batch=121, inputs=99, hidden=91, classes=11), 4, EVEN)
