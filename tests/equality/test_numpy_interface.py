"""A model written with MXNet's NumPy interface: the same numbers as on one device, under any plan."""

import mxnet as mx
import pytest
from comparison import compare
from models import Model
from training import Taken, bind_partitioned, random_plan, random_values, run_single

STEPS = 3
numpy, extension = mx.sym.np, mx.sym.npx


def variable(name):
    return mx.sym.Variable(name).as_np_ndarray()


def project(data, name, width):
    """A layer without a bias along the last dimension."""
    weight = variable(f"{name}_weight")
    return extension.fully_connected(data, weight, num_hidden=width, no_bias=True, flatten=False, name=name)


def attention_model() -> Model:
    """Attention of three heads by einsum, causal, and what else moves cells: rolls, padding, differences, a second half backwards."""
    data = variable("data")
    query, key, value = (extension.reshape(project(data, name, 12), (-2, -2, 3, 4)) for name in ("q", "k", "v"))
    scores = numpy.tril(numpy.exp(numpy.einsum("bqhd,bkhd->bhqk", query, key) / 2))
    shares = scores / numpy.sum(scores, axis=-1, keepdims=True)
    mixed = extension.reshape(numpy.einsum("bhqk,bkhd->bqhd", shares, value), (-2, -2, -1))
    net = extension.layer_norm(data + project(mixed, "mixed", 12), variable("norm_gamma"), variable("norm_beta"))
    net = numpy.pad(numpy.roll(net, 2, axis=1), ((0, 0), (1, 1), (0, 0)))
    net = numpy.diff(numpy.tanh(project(net, "wide", 20)), axis=1)
    net = numpy.concatenate([net, numpy.flip(net, 1)], axis=-1)
    net = numpy.tensordot(net, mx.sym.Variable("table_weight", shape=(40, 5)).as_np_ndarray(), axes=([2], [0]))
    net = net - extension.one_hot(variable("softmax_label"), 5, dtype="float64")
    loss = numpy.mean(numpy.square(net), axis=(1, 2))
    shapes = {"data": (6, 7, 12), "softmax_label": (6, 8)}
    return Model(mx.sym.MakeLoss(loss.as_nd_ndarray(), name="loss"), shapes, 5)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_plans_equal_one_device(workers):
    model = attention_model()
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    default, taken = bind_partitioned(model, workers, "float64"), Taken()
    compare(default, values, step, weights, STEPS)
    for seed in range(4):
        executor = bind_partitioned(model, workers, "float64", random_plan(default.partition, seed, taken))
        compare(executor, values, step, weights, STEPS)
