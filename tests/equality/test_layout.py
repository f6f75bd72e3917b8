"""Operators that only move cells, split along the dimension that they join or cut: no kernel runs there, fetches take its place."""

import json

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare
from tests.models.plain import Model
from tests.models.zoo import GLUON_MODELS
from tests.shared.random_plans import Taken, random_plan
from tests.shared.training import (
    bind_partitioned,
    largest_error,
    random_values,
    run_partitioned,
    run_single,
)
from tofu import _mxnet

STEPS = 3


def joined(batch: int = 6) -> Model:
    """Concatenations of uneven parts, one tensor in three places; cuts of one and several results, some of which nobody reads."""
    data = mx.sym.Variable("data")
    wide = mx.sym.FullyConnected(data, num_hidden=15, name="wide")
    narrow = mx.sym.FullyConnected(data, num_hidden=4, name="narrow")
    both = mx.sym.Concat(narrow, wide, narrow, mx.sym.tanh(wide), narrow, dim=1, name="both")  # 42 wide
    gates = mx.sym.SliceChannel(both, num_outputs=3, name="gates")
    cell = mx.sym.sigmoid(gates[0]) * gates[2]
    middle = mx.sym.slice_axis(mx.sym.sin(both), axis=1, begin=5, end=-6, name="middle")
    corner = mx.sym.slice(both, begin=(0, 3), end=(None, 16), name="corner")
    rows = mx.sym.slice(both, begin=(1, 30), end=(6, 35), name="rows")
    turned = mx.sym.Concat(mx.sym.transpose(rows), mx.sym.slice_axis(mx.sym.cos(rows), axis=0, begin=0, end=2), dim=0)
    left, right = mx.sym.split_v2(turned, (4,), axis=0)
    turned = mx.sym.broadcast_mul(mx.sym.sum(left, axis=0, keepdims=True), right)
    net = mx.sym.Concat(cell, middle, corner, dim=1, name="all")
    net = mx.sym.broadcast_add(net, mx.sym.mean(turned))
    net = mx.sym.FullyConnected(net, num_hidden=7, name="out")
    return Model(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (batch, 9)}, 7)


def padded(batch: int = 4) -> Model:
    """Images padded by a constant, joined by channel and by row, and cropped in both dimensions."""
    data = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=4, name="colours")
    image = mx.sym.Pad(data, mode="constant", pad_width=(0, 0, 0, 0, 2, 1, 1, 3), constant_value=0.5, name="pad")
    a = mx.sym.Convolution(image, kernel=(3, 3), num_filter=5, name="a")
    b = mx.sym.Convolution(
        mx.sym.Pad(data, mode="constant", pad_width=(0,) * 4 + (2, 1, 1, 3), name="zeros"), **THREE, name="b"
    )
    net = mx.sym.Concat(a, b, dim=1, name="channels")
    net = mx.sym.Concat(net, mx.sym.sin(net), dim=2, name="rows")
    net = mx.sym.slice(net, begin=(None, None, 2, 1), end=(None, None, 15, 8), name="crop")
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=4, name="c")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=5, name="out")
    return Model(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (batch, 3, 8, 7)}, 5)


def stacked(batch: int = 6) -> Model:
    """Stacks along the first, a middle and the last dimension, one tensor in two places, and stacks taken apart again."""
    data = mx.sym.Variable("data")
    wide = mx.sym.FullyConnected(data, num_hidden=10, name="wide")
    parts = [wide, mx.sym.tanh(wide), wide, mx.sym.sin(wide), mx.sym.cos(wide)]
    first = mx.sym.stack(*parts, axis=0, name="first")  # (5, batch, 10)
    middle = mx.sym.stack(*parts[1:], axis=1, name="middle")
    last = mx.sym.stack(*parts[2:], mx.sym.Variable("own", shape=(batch, 10)), axis=-1, name="last")
    rows = mx.sym.SliceChannel(mx.sym.sigmoid(middle), num_outputs=4, axis=1, squeeze_axis=True, name="rows")
    planes = mx.sym.split_v2(last * last, 4, axis=2, squeeze_axis=True)
    net = mx.sym.Concat(rows[0] * rows[3], planes[1] + rows[2], mx.sym.mean(first, axis=0), planes[3], dim=1)
    net = mx.sym.FullyConnected(mx.sym.Concat(net, mx.sym.Flatten(middle), dim=1), num_hidden=7, name="out")
    return Model(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (batch, 9)}, 7)


THREE = {"kernel": (3, 3), "num_filter": 3}


MODELS = {"joined": joined, "padded": padded, "stacked": stacked}
FETCHED = {
    "joined": {"Concat", "SliceChannel", "slice_axis", "slice", "_split_v2"}
    | {f"_backward_{op}" for op in ("Concat", "SliceChannel", "slice_axis", "slice")},
    "padded": {"Concat", "Pad", "slice", "_backward_Concat", "_backward_Pad", "_backward_slice"},
    "stacked": {"stack", "SliceChannel", "_split_v2", "_split_v2_backward"}
    | {f"_backward_{op}" for op in ("stack", "SliceChannel")},
}
PINNED = {
    "joined": {"both": "i1", "gates": "i1", "all": "i1", "middle": "i1", "corner": "i1", "gates_backward": "i1"},
    "padded": {"pad": "i2", "zeros": "i3", "channels": "i1", "rows": "i2", "crop": "i3"},
    "stacked": {"first": "i0", "middle": "i1", "last": "i2", "rows": "i1"}
    | {"first_backward": "i0", "middle_backward": "i1", "last_backward": "i2", "rows_backward": "i1"},
}


def fetched_operators(executor) -> set[str]:
    """The MXNet operators that fetches take the place of."""
    problem, plan = executor.partition.problem, executor.partition.plan
    pairs = zip(problem.graph.operators, problem.accesses, strict=True)
    return {o.op for o, access in pairs if not set(access.fetched_axes).isdisjoint(plan.operators.get(o.name, ()))}


@pytest.fixture(scope="module", params=MODELS)
def reference(request):
    model = MODELS[request.param]()
    values = random_values(model, "float64")
    return request.param, model, values, *run_single(model, values, "float64", STEPS)


def test_random_plans_equal_one_device(reference):
    name, model, values, step, weights = reference
    taken, fetched = Taken(), set()
    for workers in (2, 3, 4):
        default = bind_partitioned(model, workers, "float64")
        compare(default, values, step, weights, STEPS)
        for seed in range(5):
            executor = bind_partitioned(model, workers, "float64", random_plan(default.partition, seed, taken))
            compare(executor, values, step, weights, STEPS)
            fetched |= fetched_operators(executor)
    assert fetched >= FETCHED[name]


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_pinned_plans_equal_one_device(reference, workers):
    name, model, values, step, weights = reference
    executor = bind_partitioned(model, workers, "float64", hints=PINNED[name])
    compare(executor, values, step, weights, STEPS)
    assert all(set(executor.partition.plan.operators[pinned]) == {axis} for pinned, axis in PINNED[name].items())


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_slices_with_strides_split_along_them(workers):
    wide = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=23, name="wide")
    thin = mx.sym.slice(wide, begin=(None, 2), end=(None, 21), step=(1, 3), name="thin")  # 7 of 23
    back = mx.sym.slice(wide, begin=(None, 20), end=(None, 1), step=(1, -2), name="back")  # 10 of 23
    turned = mx.sym.reverse(wide, axis=1, name="turned")
    like = mx.sym.slice_like(wide, thin, axes=(1,), name="like")  # the first 7: most parts of its gradient are zeros
    nets = [mx.sym.FullyConnected(net, num_hidden=5) for net in (thin, back, turned, like)]
    model = Model(mx.sym.SoftmaxOutput(mx.sym.add_n(*nets), name="softmax"), {"data": (6, 9)}, 5)
    values = random_values(model, "float64")
    hints = {f"{name}{suffix}": "i1" for name in ("thin", "back", "turned", "like") for suffix in ("", "_backward")}
    executor = bind_partitioned(model, workers, "float64", hints=hints)
    compare(executor, values, *run_single(model, values, "float64", STEPS), STEPS)


@pytest.mark.parametrize("axis", ["r0_0", "r1_0"])
@pytest.mark.parametrize("workers", [2, 3])
def test_some_dimensions_reshaped_like_those_of_another(workers, axis):
    """Rows of several samples in one dimension, and back, as heads over masked tokens do it."""
    data, like = mx.sym.Variable("data"), mx.sym.Variable("like")
    cells = mx.sym.FullyConnected(data, num_hidden=7, flatten=False, name="cells")
    rows = mx.sym.reshape_like(cells, like, lhs_begin=0, lhs_end=2, rhs_begin=1, rhs_end=2, name="rows")
    rows = mx.sym.FullyConnected(mx.sym.tanh(rows), num_hidden=5, name="scores")
    back = mx.sym.reshape_like(rows, data, lhs_end=1, rhs_end=2, name="back")
    model = Model(mx.sym.MakeLoss(mx.sym.square(back)), {"data": (6, 4, 3), "like": (2, 24)}, 5)
    values = random_values(model, "float64")
    hints = {f"{name}{suffix}": axis for name in ("rows", "back") for suffix in ("", "_backward")}
    executor = bind_partitioned(model, workers, "float64", hints=hints)
    compare(executor, values, *run_single(model, values, "float64", STEPS), STEPS)


@pytest.mark.parametrize("axis", ["i0", "i1", "i1_1"])
@pytest.mark.parametrize("workers", [2, 3])
def test_tensors_of_several_shapes_cast_together(workers, axis):
    data = mx.sym.Variable("data")
    wide, narrow = (mx.sym.FullyConnected(data, num_hidden=n, name=f"fc{n}") for n in (7, 5))
    cast = mx.sym.amp_multicast(wide, narrow, num_outputs=2, name="cast")
    model = Model(mx.sym.Group([mx.sym.MakeLoss(mx.sym.square(one)) for one in cast]), {"data": (6, 3)}, 5)
    values = random_values(model, "float32")
    executor = bind_partitioned(model, workers, "float32", hints={"cast": axis, "cast_backward": axis})
    found, _, moved = run_partitioned(executor, values)
    assert moved == executor.partition.plan.communication_bytes
    assert largest_error(found, run_single(model, values, "float32")[0]) < 1e-6


@pytest.mark.parametrize("shape", [(6, 3, 2, 4, 1, 3), (6, 3, 2, 4, 1, 2, 3)])
@pytest.mark.parametrize("workers", [2, 3])
def test_tensors_of_more_dimensions_than_mxnet_slices(workers, shape):
    """Cell by cell, turned, joined, reduced and multiplied, under the default plan and random ones."""
    scale = mx.sym.Variable("scale", shape=(1, 3, 1, 4, *(1,) * (len(shape) - 4)), dtype="float64")
    cells = mx.sym.broadcast_mul(mx.sym.tanh(mx.sym.Variable("data")), scale)
    turned = mx.sym.SwapAxis(cells, dim1=1, dim2=len(shape) - 1)
    if len(shape) == 6:  # as many as MXNet transposes
        turned = mx.sym.transpose(turned, axes=(0, 3, 1, 2, 5, 4))
    joined = mx.sym.Concat(turned, mx.sym.sin(turned), dim=1)
    reduced = mx.sym.broadcast_mul(joined, mx.sym.sum(joined, axis=(1, 3), keepdims=True))
    loss = mx.sym.MakeLoss(mx.sym.square(mx.sym.mean(reduced, axis=2)))
    model = Model(loss, {"data": shape}, 5)
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    default = bind_partitioned(model, workers, "float64")
    compare(default, values, step, weights, STEPS)
    for seed in range(3):
        executor = bind_partitioned(model, workers, "float64", random_plan(default.partition, seed))
        compare(executor, values, step, weights, STEPS)


def test_dense_blocks_are_joined_part_by_part():
    """DenseNet split by channels: pinned to the batch, its concatenations would cost more."""
    model = GLUON_MODELS["densenet121"]("float32")
    joins = [node["name"] for node in json.loads(model.symbol.tojson())["nodes"] if node["op"] == "Concat"]
    free = tofu.partition(model.symbol, 2, **model.shapes).plan
    pinned = tofu.partition(model.symbol, 2, hints=dict.fromkeys(joins, "i0"), **model.shapes).plan
    assert {free.operators[join] for join in joins} >= {("i1",)}
    assert free.communication_bytes < pinned.communication_bytes


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_stacks_split_along_what_they_stack_are_equal_to_the_bit(workers, axis, dtype):
    """Nothing is added up in another order, so no bit is another: results, gradients, and gradients that are added to what is there."""
    shape, names = (8, 9), [f"x{n}" for n in range(workers + 1)]
    net = mx.sym.stack(*map(mx.sym.Variable, names), axis=axis, name="stack")
    whole = (*shape[:axis], len(names), *shape[axis:])
    net = mx.sym.Variable("w", shape=whole, dtype=dtype) * net
    planes = mx.sym.SliceChannel(net, num_outputs=len(names), axis=axis, squeeze_axis=True, name="planes")
    net = mx.sym.Group([mx.sym.MakeLoss(mx.sym.square(plane)) for plane in planes])
    hints = {f"{name}{suffix}": f"i{axis}" for name in ("stack", "planes") for suffix in ("", "_backward")}
    shapes = {**dict.fromkeys(names, shape), "w": whole}
    values = {
        name: np.random.default_rng(n).uniform(-1, 1, size).astype(dtype)
        for n, (name, size) in enumerate(shapes.items())
    }
    found = []
    for symbol in (net, tofu.partition(net, workers, hints=hints)):
        executor = symbol.simple_bind(mx.cpu(), grad_req="add", type_dict=dict.fromkeys(shapes, dtype), **shapes)
        for name, value in values.items():
            executor.arg_dict[name][:] = mx.nd.array(value, dtype=dtype)
            executor.grad_dict[name][:] = 3
        for _ in range(2):
            _mxnet.reset_counters()
            outputs = executor.forward(is_train=True)
            executor.backward()
            mx.nd.waitall()
        found.append([one.asnumpy() for one in (*outputs, *(executor.grad_dict[name] for name in shapes))])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    sharded, moved = executor.sharded, _mxnet.counters()["bytes_read_remote"]
    assert {"stack", "SliceChannel", "_backward_stack", "_backward_SliceChannel"} <= fetched_operators(sharded)
    assert moved == sharded.partition.plan.communication_bytes
