from itertools import cycle

import mxnet as mx
import numpy as np
import pytest

from tests.equality.comparison import compare_split, spread_workers
from tests.models.applications import APPLICATIONS
from tests.models.normalized import NORMALIZED
from tests.models.paper import transformer
from tests.models.plain import MODELS, PlainModel, upsampling_cnn
from tests.models.recurrent import RECURRENT_MODELS
from tests.models.spatial import SPATIAL
from tests.models.zoo import GLUON_MODELS

SMALL = {
    name: lambda _, build=build: build()
    for name, build in {**MODELS, **NORMALIZED, "upsampling_cnn": upsampling_cnn, **SPATIAL}.items()
} | RECURRENT_MODELS
NETWORKS = GLUON_MODELS | APPLICATIONS
CASES = spread_workers(tuple(SMALL))


@pytest.mark.parametrize(("name", "workers"), CASES)
def test_plans_equal_one_device(name, workers):
    executor = compare_split(SMALL[name]("float64"), workers, steps=2, randoms=1)
    operators = executor.partition.plan.operators.values()
    assert name not in SPATIAL or any(axis.startswith("y") for axes in operators for axis in axes if axis)


@pytest.mark.parametrize(
    ("name", "workers"), list(zip((*MODELS, "upsampling_cnn", *SPATIAL, "fused_lstm"), cycle([2, 4]), strict=False))
)
def test_random_plans_in_float32(name, workers):
    """In float32, oneDNN's kernels run."""
    compare_split(SMALL[name]("float32"), workers, dtype="float32", randoms=2)


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("resnet18_v1", 4),
        ("mobilenetv2_1.0", 2),
        ("squeezenet1.1", 8),
        ("gluon_language_model", 4),
        ("dcgan_generator", 2),
        ("unet", 4),
    ],
)
def test_networks_of_the_zoo_equal_one_device(name, workers):
    executor = compare_split(NETWORKS[name]("float64"), workers, steps=2)
    if name == "unet":
        operators = executor.partition.plan.operators
        assert operators["softmax_backward"] == operators["softmax"] == ("b", "b")


@pytest.mark.parametrize("name", ["ssd", "faster_rcnn"])
def test_detectors_in_single_precision(name):
    compare_split(NETWORKS[name]("float32"), 4, dtype="float32")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [4, 6])
def test_a_mixture_of_experts_equals_one_device(workers):
    words = 24
    made = transformer(2, 16, 2, 4, length=6, vocabulary=words, experts=4, dtype="float64")
    tokens = np.random.RandomState(2).randint(0, words, made.shapes["data"])
    model = PlainModel(made.symbol, made.shapes, words, given={"data": tokens})
    compare_split(model, workers, steps=2, tolerance=1e-11, randoms=3)


def test_an_unread_first_output_is_computed():
    """GroupNorm's kernel leaves out mean and deviation unless its first output is requested."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=72, no_bias=True, name="before")
    net = mx.sym.reshape(net, shape=(0, 3, 3, 8))
    scale, shift = mx.sym.Variable("norm_gamma", shape=(1,)), mx.sym.Variable("norm_beta", shape=(1,))
    net = mx.sym.GroupNorm(net, scale, shift, num_groups=1, name="norm")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="out")
    model = PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (5, 6)}, 5)
    compare_split(model, 6, {"norm": ("b", None), "norm_output0": (2, 0)}, steps=3)
