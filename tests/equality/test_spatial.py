import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split, list_operators
from tests.models.plain import PlainModel
from tests.shared.random_plans import feasible_axes
from tests.shared.training import bind_partitioned, largest_error, random_values, run_partitioned, run_single
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.compare.values import draw_values


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


@pytest.mark.parametrize("axes", [("y", "y"), ("x",), ("y", "b"), ("y", "x"), ("co", "y"), ("b",)])
def test_a_deformable_convolution_without_offsets(axes):
    """Positions are exactly those of elements and of the border. A rounding error would select others."""
    image = mx.sym.Variable("weight", shape=(2, 3, 7, 6)) * mx.sym.Variable("data")
    places = mx.sym.Variable("places_weight", shape=(2, 12, 5, 4))
    window = {"kernel": (2, 3), "stride": (2, 1), "dilate": (2, 1), "pad": (2, 0)}
    net = mx.sym.contrib.DeformableConvolution(image, 3 * places, num_filter=4, no_bias=True, name="layer", **window)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.sin(net)), {"data": (2, 3, 7, 6)}, 4)
    values = random_values(model, "float64") | {"places_weight": np.zeros((2, 12, 5, 4))}
    executor = compare_split(model, 2 ** len(axes), {"layer": list(axes)}, values=values)
    assert ("_tofu_deformable_convolution" in list_operators(executor)) == (not {"y", "x"}.isdisjoint(axes))


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
