import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel
from tests.shared.random_plans import feasible_axes
from tests.shared.training import bind_partitioned, largest_error, random_values, run_partitioned, run_single
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.compare.values import draw_values


def test_a_softmax_at_every_position():
    """MXNet divides its scale by the number of positions in single precision; each part uses the whole's quotient."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=4, name="conv")
    model = PlainModel(mx.sym.SoftmaxOutput(net, multi_output=True, name="softmax"), {"data": (1, 2, 9, 11)}, 4)
    compare_split(model, 3, {"softmax": "s0", "softmax_backward": "s0"}, tolerance=1e-12)


UNEVEN = [
    ((11, 9), {"kernel": (3, 2), "stride": (1, 1), "pad": (1, 1), "count_include_pad": False}),
    ((12, 9), {"kernel": (3, 4), "stride": (2, 3), "pooling_convention": "full"}),
    ((12, 10), {"kernel": (4, 3), "stride": (3, 2), "pad": (1, 1), "pooling_convention": "full"}),
    ((13,), {"kernel": (5,), "stride": (2,), "pad": (2,), "pooling_convention": "full", "count_include_pad": False}),
    ((9, 4, 5), {"kernel": (3, 2, 2), "stride": (1, 2, 1), "pad": (1, 0, 1), "count_include_pad": False}),
]


@pytest.mark.parametrize(("space", "window"), UNEVEN)
def test_average_pooling_with_position_dependent_divisors(space, window):
    ones = (1,) * len(space)
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=ones, num_filter=2, name="conv")
    net = mx.sym.Pooling(net, pool_type="avg", name="pool", **window)
    net = mx.sym.Convolution(mx.sym.tanh(net), kernel=ones, num_filter=2, name="last")
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(net), name="loss"), {"data": (1, 2, *space)}, 2)
    executor = compare_split(model, 4, {"pool": "y0", "pool_backward": "y0"})
    parts = {operator.name for operator in executor.partition.problem.graph.operators if operator.is_inner}
    assert {"pool/sum", "pool_backward/average2"} <= parts


@pytest.mark.parametrize("axis", ["b", "ci", "co"])
def test_deconvolutions_of_volumes(axis):
    """MXNet has oneDNN's float32 kernels only; workers compute their gradients by Convolution."""
    window = {"kernel": (3, 2, 1), "stride": (2, 2, 1), "pad": (1, 0, 0), "adj": (1, 0, 0), "no_bias": False}
    data = 1.5 * mx.sym.Variable("data")
    # MXNet adds this many gradients of one tensor in place.
    layers = [mx.sym.Deconvolution(data, num_filter=3, **window, name=f"up{i}") for i in range(9)]
    net = mx.sym.Group([mx.sym.MakeLoss(mx.sym.tanh(layer)) for layer in layers])
    model = PlainModel(net, {"data": (4, 4, 5, 3, 3)}, 4)
    compare_split(model, 3, {f"up{i}_backward": axis for i in range(9)}, dtype="float32")


@pytest.mark.parametrize("axis", ["b", "y0", "co"])
def test_a_deconvolution_of_a_given_output_shape(axis):
    """MXNet's float32 kernels refuse it on one device; workers pass its padding."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=2, name="conv")
    net = mx.sym.Deconvolution(net, kernel=(4, 3), stride=(2, 3), target_shape=(11, 8), num_filter=4, name="up")
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(net)), {"data": (3, 2, 6, 3)}, 2)
    values, hints = random_values(model, "float64"), {"up": axis, "up_backward": axis}
    compare_split(model, 3, hints)
    executor = bind_partitioned(model, 3, "float32", hints=hints)
    assert largest_error(run_partitioned(executor, values)[0], run_single(model, values, "float64")[0]) < 1e-5


PLANES = {"concat": [(4, 4, 6), (2, 2, 3), (3, 8, 12)], "sum": [(3, 4, 6), (3, 8, 12)]}


@pytest.mark.parametrize(("mode", "axis"), [("concat", "b"), ("concat", "x"), ("sum", "c"), ("sum", "x")])
def test_upsampling_of_planes_of_several_sizes(mode, axis):
    data, planes = mx.sym.Variable("data"), []
    for n, (channels, *space) in enumerate(PLANES[mode]):
        cells = mx.sym.FullyConnected(data, num_hidden=channels * space[0] * space[1], name=f"fc{n}")
        planes.append(mx.sym.Reshape(cells, shape=(0, channels, *space)))
    options = {"scale": 4, "sample_type": "nearest", "num_args": len(planes), "multi_input_mode": mode}
    net = mx.sym.UpSampling(*planes, name="up", **options)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(mx.sym.sin(net))), {"data": (3, 2)}, 2)
    compare_split(model, 3, {"up": axis, "up_backward": axis})


def test_im2col_and_col2im_by_rows():
    window = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1)}
    data = mx.sym.broadcast_mul(mx.sym.Variable("data"), mx.sym.Variable("scale_weight", shape=(1, 1, 11, 1)))
    net = mx.sym.im2col(data, name="take", **window)
    net = mx.sym.col2im(mx.sym.sin(net), output_size=(11, 6), name="put", **window)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {"data": (1, 2, 11, 6)}, 2)
    compare_split(model, 3, dict.fromkeys(("take", "put", "take_backward", "put_backward"), "y0"), steps=2)


def test_elements_of_a_window_stay_together():
    window = {"kernel": (3, 1), "stride": (2, 2), "pad": (0, 1)}
    columns = mx.sym.Variable("columns_weight", shape=(2, 3, 4), dtype="float64")
    net = mx.sym.col2im(columns, output_size=(5, 2), name="put", **window)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {}, 2)
    partition = bind_partitioned(model, 2, "float64").partition
    for name in ("put", "put_backward"):
        assert feasible_axes(partition, name) == ["b", "y0"]
    compare_split(model, 3, steps=2, on_infeasible="replicate")


def test_a_spatial_transformer_by_rows():
    """At the identity, positions are exactly those of elements. A rounding error would change the gradient."""
    image, places = (mx.sym.Variable(name, shape=shape) for name, shape in (("weight", (2, 3, 7, 6)), ("loc", (2, 6))))
    options = {"target_shape": (7, 6), "transform_type": "affine", "sampler_type": "bilinear"}
    net = mx.sym.SpatialTransformer(image * mx.sym.Variable("data"), places, name="layer", **options)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {"data": (2, 3, 7, 6)}, 4)
    values = random_values(model, "float64")
    values["loc"] = np.array([[1, 0, 0, 0, 1, 0]] * 2, "float64")
    executor = compare_split(model, 3, {"layer": "y"}, values=values)
    assert "layer/places" in [operator.name for operator in executor.partition.problem.graph.operators]
    columns = tofu.partition(net, 3, hints={"layer": "x"}, for_training=False, data=(2, 3, 7, 6))
    found, expected = (s.eval(**{n: mx.nd.array(v) for n, v in values.items()})[0] for s in (columns, net))
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())


DEFORMED = {
    "padded": ({"kernel": (3, 3), "pad": (1, 1)}, (7, 6)),
    "strided": ({"kernel": (2, 3), "stride": (2, 1), "dilate": (2, 1), "pad": (2, 0), "no_bias": True}, (5, 4)),
}


@pytest.mark.parametrize("offsets", ["zero", "random"])
@pytest.mark.parametrize("name", DEFORMED)
@pytest.mark.parametrize("axes", [("y", "y"), ("x",), ("y", "b"), ("y", "x"), ("co", "y"), ("b",)])
def test_a_deformable_convolution_in_space(name, axes, offsets):
    """Without offsets, positions are exactly those of elements and of the border. A rounding error would select others."""
    window, space = DEFORMED[name]
    cells = window["kernel"][0] * window["kernel"][1]
    image = mx.sym.Variable("weight", shape=(2, 3, 7, 6)) * mx.sym.Variable("data")
    places = mx.sym.Variable("places_weight", shape=(2, 2 * cells, *space))
    net = mx.sym.contrib.DeformableConvolution(image, 3 * places, num_filter=4, name="layer", **window)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {"data": (2, 3, 7, 6)}, 4)
    values = random_values(model, "float64")
    if offsets == "zero":
        values["places_weight"] *= 0
    executor = compare_split(model, 2 ** len(axes), {"layer": list(axes)}, values=values)
    runs_in_parts = {"y", "x"}.intersection(axes) != set()
    parts = [o.op for o in executor.partition.problem.graph.operators if o.name == "layer"]
    assert parts == ["_tofu_deformable_convolution" if runs_in_parts else "_contrib_DeformableConvolution"]


@pytest.mark.parametrize("axis", ["y", "x", "b", "co", "ci"])
def test_gradients_of_a_deformable_convolution_are_added(axis):
    """MXNet's kernel overwrites the gradients of data and offsets even if addition is requested."""
    shapes = {"data": (2, 3, 8, 6), "offset": (2, 18, 8, 6), "weight": (4, 3, 3, 3)}
    net = mx.sym.contrib.DeformableConvolution(
        *map(mx.sym.Variable, shapes), kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, name="layer"
    )
    net = mx.sym.MakeLoss(mx.sym.sin(net))
    split = tofu.partition(net, 2, hints={"layer": axis}, **shapes)
    values = draw_values(net, shapes)
    for requests in (dict.fromkeys(shapes, "add"), {"data": "null", "offset": "write", "weight": "add"}):
        expected = run_step(net, shapes, values, requests, adds_apart=True).training.gradients
        found = run_step(split, shapes, values, requests).training.gradients
        assert found.keys() == {name for name, request in requests.items() if request != "null"}
        for name, gradient in found.items():
            np.testing.assert_allclose(gradient, expected[name], rtol=0, atol=1e-5)


def test_parts_of_a_deformable_convolution_read_the_same_places():
    """Offsets close to an element would be rounded if complete rows were added to them."""
    names = {"data": (1, 2, 40, 5), "offset": (1, 18, 40, 5), "weight": (3, 2, 3, 3)}
    net = mx.sym.contrib.DeformableConvolution(
        *map(mx.sym.Variable, names), kernel=(3, 3), pad=(1, 1), num_filter=3, no_bias=True, name="layer"
    )
    random = np.random.RandomState(7)
    # Just above an element, and just outside of the border.
    given = {n: mx.nd.array(random.uniform(-1, 1, shape)) for n, shape in names.items()}
    given["offset"] = mx.nd.array(random.choice([-1e-7, 1e-7, 0.0, -3e-8], names["offset"]))
    split = tofu.partition(net, 3, hints={"layer": "y"}, for_training=False, **names)
    found, expected = (symbol.eval(**given)[0].asnumpy() for symbol in (split, net))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "axis"),
    [
        ({"height": 11, "width": 9}, "i"),
        ({"height": 4, "width": 3, "align_corners": False}, "i"),
        ({"mode": "to_even_up"}, "i"),
        ({"mode": "like"}, "i"),
        ({"height": 7, "width": 9}, "i"),
        ({"height": 11, "width": 5}, "j"),
    ],
)
def test_bilinear_resizing_by_rows_and_columns(attributes, axis):
    inputs = [mx.sym.Variable("weight", shape=(1, 2, 7, 5)) * mx.sym.Variable("data")]
    if attributes.get("mode") == "like":
        inputs.append(mx.sym.Variable("size", shape=(1, 2, 6, 8)))
    net = mx.sym.contrib.BilinearResize2D(*inputs, name="layer", **attributes)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {"data": (1, 2, 7, 5)}, 4)
    compare_split(model, 3, {"layer": axis} | ({} if len(inputs) > 1 else {"layer_backward": axis}))
