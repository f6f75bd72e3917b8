"""The table of layers: everything that a plan moves is counted with a layer of the model, once."""

import pytest

import tofu
from tests.models.normalized import resnet_v1
from tofu.report.plan_table import list_layers


@pytest.mark.parametrize("workers", [2, 3, 6])
def test_layers_add_up_to_the_plan(workers):
    model = resnet_v1(12)
    partition = tofu.partition(model.symbol, workers, **model.shapes).planned()
    layers = list_layers(partition)
    assert sum(layer.moved_bytes for layer in layers) == partition.plan.communication_bytes
    assert {layer.name for layer in layers} <= {operator.name for operator in partition.graph.operators}
    assert any(operator.is_inner for operator in partition.problem.graph.operators), "operators in parts are seen"
