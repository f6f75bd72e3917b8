import itertools
from dataclasses import replace

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import STEP_TOLERANCE, WEIGHT_TOLERANCE, compare, compare_split, list_operators
from tests.models.normalized import resnet_v2
from tests.models.plain import PlainModel
from tests.shared.random_plans import feasible_axes
from tests.shared.training import (
    bind_partitioned,
    largest_error,
    random_values,
    run_partitioned,
    run_single,
    weight_error,
)
from tofu.compare.numbers import compare_numbers, relative_error
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.compare.values import draw_values
from tofu.plan import Plan


def one_layer(attributes, shape=(6, 4, 5, 6)) -> PlainModel:
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn", **attributes)
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=5, name="fc")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": shape}, 5)


def split(axis):
    return {"bn": axis, "bn_backward": axis}


AXES = [("b", "b"), ("y0", "y1"), ("b", "y1"), ("c", "b"), ("y0", "c"), ("c", "c")]
ATTRIBUTES = [
    {"fix_gamma": False, "eps": 1e-5, "momentum": 0.7},
    {"fix_gamma": False, "axis": 3},
    {"fix_gamma": True, "axis": -3},
    {"fix_gamma": False, "axis": 0},
    {"fix_gamma": False, "use_global_stats": True},
    {"fix_gamma": True, "use_global_stats": True, "axis": 3},
]


@pytest.mark.parametrize(
    ("attributes", "axes"),
    [
        *(({"fix_gamma": True}, axes) for axes in AXES),
        *((attributes, AXES[k % 6]) for n, attributes in enumerate(ATTRIBUTES) for k in (n, n + 3)),
    ],
    ids=str,
)
def test_batch_norm_of_each_attribute_and_axis(attributes, axes):
    model = one_layer(attributes)
    executor = compare_split(model, 4, split(axes), steps=3)
    assert executor.partition.plan.operators["bn"] == axes
    assert executor.partition.plan.operators["bn_backward"] == axes
    uses_parts = axes != ("c", "c") and not attributes.get("use_global_stats")
    assert ("_tofu_batch_norm_apply" in list_operators(executor)) == uses_parts
    assert ("BatchNorm" in list_operators(executor)) != uses_parts
    check_states_are_equal(executor)
    check_inference(model, executor)


def check_states_are_equal(executor):
    for name in ("bn_moving_mean", "bn_moving_var", "bn_gamma"):
        variable = executor.variables[name]
        held = {}
        for array, region in zip(variable.arrays, variable.regions, strict=True):
            held.setdefault(str(region), set()).add(array.asnumpy().tobytes())
        assert all(len(values) == 1 for values in held.values()), name


def check_inference(model, executor):
    rest = {name: value for name, value in random_values(model, "float64", seed=5).items() if name in model.shapes}
    weights = {name: variable.gather().asnumpy() for name, variable in executor.variables.items()}
    for name, value in rest.items():
        executor.variables[name].scatter(value)
    executor.forward(is_train=False)
    found = executor.output(0).gather().asnumpy()
    single = model.symbol.simple_bind(mx.cpu(), grad_req="null", type_dict={"data": "float64"}, **model.shapes)
    for name, array in (single.arg_dict | single.aux_dict).items():
        array[:] = {**weights, **rest}[name]
    assert relative_error(found, single.forward(is_train=False)[0].asnumpy()) < 1e-12


@pytest.mark.parametrize("hints", [{}, split(("b", "c")), split(("c", "c")), split(("y0", "b"))], ids=str)
def test_a_computed_fixed_gamma(hints):
    shape = (6, 8, 5, 4)
    data, gamma = mx.sym.Variable("data"), mx.sym.Variable("gamma")
    nets = [mx.sym.BatchNorm(data, gamma=scale, fix_gamma=True, name="bn") for scale in (gamma, 2 * gamma)]
    rng = np.random.RandomState(0)
    values = {name: rng.uniform(0.5, 1.5, 8) for name in ("gamma", "bn_beta", "bn_moving_mean", "bn_moving_var")}
    values["data"] = rng.uniform(-1, 1, shape)
    shapes, requests = {"data": shape, "gamma": (8,)}, {"data": "write", "bn_beta": "write"}
    expected, found = (
        run_step(symbol, shapes, values, requests).training
        for symbol in (nets[0], tofu.partition(nets[1], 4, hints=hints))
    )
    assert [difference for difference in compare_numbers(found, expected) if difference.error >= 1e-12] == []


@pytest.mark.parametrize("axes", ["b", "y0", ("b", "y1")], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_mean_a_thousand_times_the_deviation(axes, dtype):
    model = one_layer({"fix_gamma": False}, (8, 3, 12, 12))
    values = random_values(model, dtype)
    values["data"] = (1000 + np.random.RandomState(3).randn(8, 3, 12, 12)).astype(dtype)
    exact, exact_states = run_single(model, {n: v.astype("float64") for n, v in values.items()}, "float64", 2)
    single, single_states = run_single(model, values, dtype, 2)
    found, states, _ = run_partitioned(bind_partitioned(model, 4, dtype, hints=split(axes)), values, 2)
    if dtype == "float64":
        assert largest_error(found, exact) < STEP_TOLERANCE["float64"]
        assert weight_error(states, exact_states) < WEIGHT_TOLERANCE
    else:
        assert largest_error(found, exact) <= max(4 * largest_error(single, exact), 1e-4)
        assert relative_error(states["bn_moving_var"], exact_states["bn_moving_var"]) < 1e-5
        assert relative_error(single_states["bn_moving_var"], exact_states["bn_moving_var"]) < 1e-2


def test_a_plan_names_the_operators_of_the_model():
    model = resnet_v2()
    executor = bind_partitioned(model, 4, "float64", hints={"bn_data": "b", "bn0a_backward": "c"})
    plan = executor.partition.plan
    assert plan.operators["bn_data"] == ("b", "b")
    assert set(plan.operators) == set(executor.partition.graph.operator_index)
    assert {name.split("/")[0] for name in plan.tensors if "/" in name} <= set(plan.operators)
    assert "bn0a_backward/by_beta" not in plan.tensors  # split by channel: the stock operator
    again = bind_partitioned(model, 4, "float64", Plan.from_json(plan.to_json()))
    assert again.partition.plan == plan
    whole = {name: rounds for name, rounds in plan.tensors.items() if "/" not in name}
    again = bind_partitioned(model, 4, "float64", replace(plan, tensors=whole))
    assert again.partition.plan.communication_bytes == plan.communication_bytes


def test_global_statistics_may_be_read_by_other_workers():
    """MXNet's graph claims that the gradient changes the statistics, which it does not."""
    scaled = mx.sym.broadcast_mul(mx.sym.Variable("data"), mx.sym.Variable("scale_weight", shape=(1, 6, 1, 1)))
    normalized = mx.sym.BatchNorm(scaled, fix_gamma=False, use_global_stats=True, name="norm")
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(normalized)), {"data": (4, 6, 8, 8)}, 4)
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", 3)
    pairs = list(itertools.product(("b", "c", "y0"), repeat=2))
    for forward, backward in zip(pairs, pairs[4:] + pairs[:4], strict=True):
        executor = bind_partitioned(model, 4, "float64", hints={"norm": forward, "norm_backward": backward})
        compare(executor, values, step, weights, 3)


@pytest.mark.parametrize("axis", ["b", "c"])
@pytest.mark.parametrize(("workers", "shape"), [(2, (6, 4)), (3, (6, 4, 3, 2))])
def test_batch_norm_v1_with_global_statistics(axis, workers, shape):
    """With a fixed gamma, its gradient requests the data but does not read them."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=5, flatten=False, name="fc")
    net = mx.sym.SwapAxis(net, dim1=1, dim2=len(shape) - 1)
    net = mx.sym.BatchNorm_v1(net, use_global_stats=True, name="bn")
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(net)), {"data": shape}, 5)
    values = random_values(model, "float32")
    executor = bind_partitioned(model, workers, "float32", hints=split(axis))
    found, _, moved = run_partitioned(executor, values)
    assert moved == executor.partition.plan.communication_bytes
    assert largest_error(found, run_single(model, values, "float32")[0]) < STEP_TOLERANCE["float32"]
    executor.variables["bn_gamma"].scatter(np.full(5, 3, "float32"))
    executor.forward(is_train=True)
    executor.backward()
    mx.nd.waitall()  # MXNet does not know that the kernel writes gamma
    assert all((shard.asnumpy() == 1).all() for shard in executor.variables["bn_gamma"].arrays)  # it is fixed


def test_unread_outputs_are_not_computed():
    data = mx.sym.Variable("data")
    normalized = mx.sym.BatchNorm(mx.sym.sin(data, name="sin"), fix_gamma=False, use_global_stats=True, name="norm")
    symbol = mx.sym.Group([mx.sym.zeros_like(normalized), mx.sym.cos(data)])
    hints = {"data": 0, "sin": "i0", "sin_output": 0, "norm": "c", "norm_moving_mean": 0, "norm_moving_var": 0}
    partitioned = tofu.partition(symbol, 2, hints=hints, for_training=False, data=(4, 6, 5))
    assert partitioned.plan.communication_bytes == 0
    assert "BatchNorm" not in partitioned.execution_symbol.tojson()


def one_line_operator(build, shape=(6, 5, 8)) -> PlainModel:
    net = mx.sym.FullyConnected(build(mx.sym.Variable("data")), num_hidden=5, name="fc")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": shape}, 5)


@pytest.mark.parametrize("axes", [("k", "k"), ("i0", "k"), ("k", "i0"), ("i0", "i0")], ids=str)
@pytest.mark.parametrize("attributes", [{"axis": -1}, {"axis": 1, "temperature": 0.5}], ids=str)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_along_its_own_dimension(op, attributes, axes):
    """The exponentials of the inputs would overflow."""

    def build(data):
        data = mx.sym.FullyConnected(data, num_hidden=8, flatten=False, no_bias=True, name="before")
        return getattr(mx.sym, op)(1000 + 100 * data, name="soft", **attributes)

    model = one_line_operator(build)
    executor = compare_split(model, 4, {"soft": axes, "soft_backward": axes}, steps=3)
    assert executor.partition.plan.operators["soft"] == axes
    assert (f"_tofu_{op}_apply" in list_operators(executor)) == ("k" in axes)
    check_inference(model, executor)


IN_HALF_PRECISION = {
    "BatchNorm": (lambda data: mx.sym.BatchNorm(data, fix_gamma=False, name="op"), (6, 4, 5, 6), "b"),
    "LayerNorm": (lambda data: mx.sym.LayerNorm(data, name="op"), (6, 5, 8), "k"),
    "softmax": (lambda data: mx.sym.softmax(data, axis=-1, name="op"), (6, 5, 8), "k"),
    "log_softmax": (lambda data: mx.sym.log_softmax(data, axis=-1, name="op"), (6, 5, 8), "k"),
}


@pytest.mark.parametrize("name", IN_HALF_PRECISION)
def test_half_precision_is_as_exact_as_mxnet(name):
    """Errors are at most twice the errors of MXNet's float16 kernels."""
    build, shape, axis = IN_HALF_PRECISION[name]
    weighted = mx.sym.Cast(build(mx.sym.Variable("data")), dtype="float64") * mx.sym.Variable("w_weight", shape=shape)
    symbol = mx.sym.MakeLoss(mx.sym.sum(mx.sym.square(weighted)), name="loss")
    values = draw_values(symbol, {"data": shape}, {"data": "float16"})
    exact_values = {name: value.astype("float64") for name, value in values.items()}
    partitioned = tofu.partition(symbol, 2, hints=dict.fromkeys(("op", "op_backward"), axis))
    stock, found, exact = (
        run_step(one, {"data": shape}, given, dict.fromkeys(symbol.list_arguments(), "write")).training.gradients
        for one, given in ((symbol, values), (partitioned, values), (symbol, exact_values))
    )
    assert "_apply" in partitioned.execution_symbol.tojson()
    for name, gradient in exact.items():
        allowed = 2 * max(relative_error(stock[name], gradient), 2**-11)
        assert relative_error(found[name], gradient) <= allowed


@pytest.mark.parametrize("op", ["max", "min", "prod", "nanprod"])
def test_partial_maxima_minima_and_products(op):
    data = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=9, no_bias=True, name="before")
    reduced = getattr(mx.sym, op)(3 * data, axis=1, name="reduced")
    model = PlainModel(mx.sym.MakeLoss(reduced, name="loss"), {"data": (4, 6)}, 2)
    axes = feasible_axes(bind_partitioned(model, 3, "float64").partition, "reduced")
    assert len(axes) == 2
    for axis in axes:
        compare_split(model, 3, {"reduced": axis}, steps=3)
