"""The same numbers as one device: for the plan that the search finds, and for random plans that no search would choose."""

import mxnet as mx
import pytest

from tests.equality.comparison import (
    STEPS,
    References,
    compare,
    compare_in_float32,
    compare_random_plans,
    compare_random_plans_in_float32,
    spread_workers,
)
from tests.models.plain import MODELS, Model, residual_cnn, upsampling_cnn
from tests.shared.training import bind_partitioned, random_values, run_single
from tofu.analysis import Combine
from tofu.graph import Phase

RANDOM_PLANS = 3

CASES = spread_workers(MODELS)


@pytest.fixture(scope="module")
def reference():
    return References(lambda name, _: MODELS[name]())


@pytest.mark.parametrize(("name", "workers"), CASES)
def test_default_plan_equals_one_device(reference, name, workers):
    model, values, step, weights = reference(name, "float64")
    compare(bind_partitioned(model, workers, "float64"), values, step, weights)


@pytest.mark.parametrize(("name", "workers"), CASES)
def test_random_plans_equal_one_device(reference, name, workers):
    compare_random_plans(reference, name, workers, RANDOM_PLANS)


@pytest.mark.parametrize(("name", "workers"), CASES)
def test_float32_is_as_close_as_a_permuted_batch(reference, name, workers):
    compare_in_float32(reference, name, workers)


def deep_mlp(batch: int, width: int) -> Model:
    """Wide enough that no single kind of parallelism is cheapest."""
    net = mx.sym.Variable("data")
    for i in range(3):
        net = mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{i}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{i}")
    net = mx.sym.FullyConnected(net, num_hidden=16, name="out")
    return Model(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (batch, 64)}, 16)


def forward_reductions(partition) -> list[str]:
    """Forward operators that the plan splits so that partial results must be summed."""
    return [
        operator.name
        for operator, access, choice in zip(
            partition.problem.graph.operators, partition.problem.accesses, partition.choices.operators, strict=False
        )
        if operator.phase == Phase.FORWARD
        and any(axis >= 0 and any(o.combine[axis] == Combine.REDUCE for o in access.outputs) for axis in choice)
    ]


@pytest.mark.parametrize("model", [deep_mlp(64, 256), residual_cnn(16, 32, 3)], ids=["deep_mlp", "residual_cnn"])
def test_plans_of_several_dimensions_and_reductions(model):
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    executor = bind_partitioned(model, 8, "float64")
    partition = executor.partition
    dimensions = {d for steps in partition.plan.tensors.values() for d in steps if d is not None}
    assert len(dimensions) >= 2
    assert forward_reductions(partition)
    compare(executor, values, step, weights)


def test_copies_whose_first_output_nobody_reads():
    """GroupNorm's kernel leaves out mean and deviation where its first output is not asked for."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=72, no_bias=True, name="before")
    net = mx.sym.reshape(net, shape=(0, 3, 3, 8))
    scale, shift = mx.sym.Variable("norm_gamma", shape=(1,)), mx.sym.Variable("norm_beta", shape=(1,))
    net = mx.sym.GroupNorm(net, scale, shift, num_groups=1, name="norm")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="out")
    model = Model(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (5, 6)}, 5)
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    hints = {"norm": ("b", None), "norm_output0": (2, 0)}
    compare(bind_partitioned(model, 6, "float64", hints=hints), values, step, weights)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("build", [*MODELS.values(), upsampling_cnn])
def test_random_plans_in_float32(build, workers):
    """In float32 oneDNN's kernels run, which read and write what MXNet's own do not."""
    compare_random_plans_in_float32(build(), workers, plans=10)
