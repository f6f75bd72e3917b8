"""Operators that only move elements, split along the dimension that they join or cut, are replaced by fetches."""

import mxnet as mx
import pytest

from tests.equality.comparison import compare, compare_split
from tests.models.plain import PlainModel
from tests.shared.random_plans import Taken, random_plan
from tests.shared.training import bind_partitioned, random_values, run_single


def joined(batch: int = 6) -> PlainModel:
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
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (batch, 9)}, 7)


def padded(batch: int = 4) -> PlainModel:
    data = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=4, name="colours")
    image = mx.sym.Pad(data, mode="constant", pad_width=(0, 0, 0, 0, 2, 1, 1, 3), constant_value=0.5, name="pad")
    a = mx.sym.Convolution(image, kernel=(3, 3), num_filter=5, name="a")
    zeros = mx.sym.Pad(data, mode="constant", pad_width=(0,) * 4 + (2, 1, 1, 3), name="zeros")
    b = mx.sym.Convolution(zeros, kernel=(3, 3), num_filter=3, name="b")
    net = mx.sym.Concat(a, b, dim=1, name="channels")
    net = mx.sym.Concat(net, mx.sym.sin(net), dim=2, name="rows")
    net = mx.sym.slice(net, begin=(None, None, 2, 1), end=(None, None, 15, 8), name="crop")
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=4, name="c")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=5, name="out")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (batch, 3, 8, 7)}, 5)


def stacked(batch: int = 6) -> PlainModel:
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
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), {"data": (batch, 9)}, 7)


MODELS = {"joined": joined, "padded": padded, "stacked": stacked}
FETCHED = {
    "joined": {"Concat", "SliceChannel", "slice_axis", "slice", "_split_v2"}
    | {f"_backward_{op}" for op in ("Concat", "SliceChannel", "slice_axis", "slice")},
    "padded": {"Concat", "Pad", "_tofu_join", "_backward_Concat", "_backward_Pad", "_backward_slice"},
    "stacked": {"stack", "SliceChannel", "_split_v2", "_split_v2_backward"}
    | {f"_backward_{op}" for op in ("stack", "SliceChannel")},
}
PINNED = {
    "joined": {"both": "i1", "gates": "i1", "all": "i1", "middle": "i1", "corner": "i1", "gates_backward": "i1"},
    "padded": {"pad": "i2", "zeros": "i3", "channels": "i1", "rows": "i2", "crop": "i3"},
    "stacked": {"first": "i0", "middle": "i1", "last": "i2", "rows": "i1"}
    | {"first_backward": "i0", "middle_backward": "i1", "last_backward": "i2", "rows_backward": "i1"},
}


def pin(names, axis) -> dict[str, str]:
    return {f"{name}{suffix}": axis for name in names for suffix in ("", "_backward")}


def fetched_operators(partition) -> set[str]:
    problem, plan = partition.problem, partition.plan
    pairs = zip(problem.graph.operators, problem.accesses, strict=True)
    return {o.op for o, access in pairs if not set(access.fetched_axes).isdisjoint(plan.operators.get(o.name, ()))}


@pytest.mark.parametrize("name", MODELS)
def test_random_plans_equal_one_device(name):
    model, taken, fetched = MODELS[name](), Taken(), set()
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", 2)
    for workers in (3, 4):
        default = bind_partitioned(model, workers, "float64")
        compare(default, values, step, weights, 2)
        for seed in range(4):
            executor = bind_partitioned(model, workers, "float64", random_plan(default.partition, seed, taken))
            compare(executor, values, step, weights, 2)
            fetched |= fetched_operators(executor.partition)
    assert fetched >= FETCHED[name]


@pytest.mark.parametrize("workers", [3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_pinned_plans_equal_one_device(name, workers):
    operators = compare_split(MODELS[name](), workers, PINNED[name], steps=2).partition.plan.operators
    assert all(set(operators[pinned]) == {axis} for pinned, axis in PINNED[name].items())


def test_slices_with_strides_split_along_them():
    wide = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=23, name="wide")
    thin = mx.sym.slice(wide, begin=(None, 2), end=(None, 21), step=(1, 3), name="thin")  # 7 of 23
    back = mx.sym.slice(wide, begin=(None, 20), end=(None, 1), step=(1, -2), name="back")  # 10 of 23
    turned = mx.sym.reverse(wide, axis=1, name="turned")
    like = mx.sym.slice_like(wide, thin, axes=(1,), name="like")  # the first 7: most parts of its gradient are zeros
    nets = [mx.sym.FullyConnected(net, num_hidden=5) for net in (thin, back, turned, like)]
    model = PlainModel(mx.sym.SoftmaxOutput(mx.sym.add_n(*nets), name="softmax"), {"data": (6, 9)}, 5)
    compare_split(model, 4, pin(("thin", "back", "turned", "like"), "i1"), steps=2)


@pytest.mark.parametrize(
    ("reduce", "moved"),
    [
        (lambda x: mx.sym.slice(x, begin=(3,), end=(4,)), 2 * 24),  # half of the row, there and back
        (
            lambda x: mx.sym.mean(x, axis=0),
            3 * 48,
        ),  # an all-reduce of the sums, and half of the gradient to each worker
        (lambda x: mx.sym.np.mean(x.as_np_ndarray(), axis=0).as_nd_ndarray(), 3 * 48),
        (lambda x: mx.sym.mean(x, axis=1, exclude=True), 3 * 48),
        (lambda x: mx.sym.np.mean(x.as_np_ndarray(), axis=()).as_nd_ndarray(), 0),  # reduces no dimension
    ],
)
def test_a_row_and_a_mean_of_a_split_weight_transfer_no_complete_part(reduce, moved):
    weight = mx.sym.Variable("weight", shape=(24, 6), dtype="float64")
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(reduce(weight))), {}, 2)
    assert compare_split(model, 2, {"weight": 0}, steps=2).partition.plan.communication_bytes <= moved


# The sizes of these shapes do not nest, and some have equal contiguous shards.
RESHAPES = {
    "Reshape": lambda x, like: mx.sym.Reshape(x, shape=(0, 32, 15)),
    "reshape": lambda x, like: x.reshape((-1, 32, 15)),
    "reshape_like": lambda x, like: mx.sym.reshape_like(x, like),
    "np.reshape": lambda x, like: x.as_np_ndarray().reshape((2, 32, 15)).as_nd_ndarray(),
}


@pytest.mark.parametrize("name", RESHAPES)
def test_reshapes_to_the_same_contiguous_shards_transfer_nothing(name):
    before = mx.sym.Variable("before", shape=(2, 48, 10), dtype="float64")
    after = mx.sym.Variable("after", shape=(2, 32, 15), dtype="float64")
    back = RESHAPES[name](mx.sym.sin(mx.sym.Variable("data") * before), after)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(back) * after), {"data": (2, 48, 10)}, 5)
    hints = {"data": 1, "before": 1, "after": 1}
    assert compare_split(model, 8, hints, steps=2).partition.plan.communication_bytes == 0


def test_reshapes_to_other_contiguous_shards_transfer_the_difference():
    """18 blocks over 4 workers begin at rows 0, 12, 27 and 39 of the data, and at 0, 16, 36 and 52 of the result.

    The shards begin at 0, 13, 27 and 40, and at 0, 18, 36 and 54.
    """
    back = mx.sym.Reshape(mx.sym.sin(mx.sym.Variable("data")), shape=(72, 9), name="back")
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(back), name="loss"), {"data": (54, 12)}, 5)
    executor = compare_split(model, 4, {"data": 0, "back": "r0_0", "loss_output": 0, "back_output": 0})
    assert executor.partition.plan.communication_bytes == 8 * (2 * 12 + 4 * 9)


@pytest.mark.parametrize("shape", [(6, 3, 2, 4, 1, 3), (6, 3, 2, 4, 1, 2, 3)])
@pytest.mark.parametrize("workers", [2, 3])
def test_tensors_of_more_dimensions_than_mxnet_slices(workers, shape):
    scale = mx.sym.Variable("scale", shape=(1, 3, 1, 4, *(1,) * (len(shape) - 4)), dtype="float64")
    cells = mx.sym.broadcast_mul(mx.sym.tanh(mx.sym.Variable("data")), scale)
    turned = mx.sym.SwapAxis(cells, dim1=1, dim2=len(shape) - 1)
    if len(shape) == 6:
        turned = mx.sym.transpose(turned, axes=(0, 3, 1, 2, 5, 4))
    joined = mx.sym.Concat(turned, mx.sym.sin(turned), dim=1)
    reduced = mx.sym.broadcast_mul(joined, mx.sym.sum(joined, axis=(1, 3), keepdims=True))
    loss = mx.sym.MakeLoss(mx.sym.square(mx.sym.mean(reduced, axis=2)))
    compare_split(PlainModel(loss, {"data": shape}, 5), workers, steps=2, randoms=3)
