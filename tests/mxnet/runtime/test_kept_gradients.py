"""Gradients that stay where backward wrote them are valid until the next backward."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.normalized import resnet_v1
from tests.models.plain import mlp
from tests.models.recurrent import RECURRENT_MODELS
from tofu.mxnet.engine import MXNET

SHAPE = (6, 4)


def variables(*names):
    return [mx.sym.Variable(name, shape=SHAPE) for name in names]


def of_one_sum():
    first, second = variables("first", "second")
    return mx.sym.square(first + second)


def of_an_activation():
    """The gradient may be computed in the memory of an activation that is kept."""
    (weight,) = variables("weight")
    return mx.sym.sigmoid(mx.sym.exp(weight)) * mx.sym.Variable("data")


def of_a_view():
    (weight,) = variables("weight")
    return mx.sym.dot(mx.sym.Variable("data"), mx.sym.reshape(weight, shape=(4, 6)))


def of_several_readers():
    first, second = variables("first", "second")
    return mx.sym.dot(first, second, transpose_b=True) + mx.sym.dot(second, first * first, transpose_b=True)


def of_itself():
    """The gradient of `weight` is the head gradient that the caller passes."""
    weight, other = variables("weight", "other")
    return mx.sym.Group([mx.sym.identity(weight), mx.sym.tanh(other), weight + mx.sym.Variable("data")])


MODELS = {build.__name__: build for build in (of_one_sum, of_an_activation, of_a_view, of_several_readers, of_itself)}


def bind(symbol, is_partitioned, workers, dtype):
    data = {"data": SHAPE} if "data" in symbol.list_arguments() else {}
    made = tofu.partition(symbol, workers, on_infeasible="replicate") if is_partitioned else symbol
    executor = made.simple_bind(mx.cpu(), type_dict=dict.fromkeys(symbol.list_arguments(), dtype), **data)
    draw = np.random.RandomState(5)
    for array in executor.arg_dict.values():
        array[:] = draw.uniform(-1, 1, array.shape)
    return executor


def run(executor):
    executor.forward(is_train=True)
    draw = np.random.RandomState(6)
    executor.backward([mx.nd.array(draw.randn(*o.shape), dtype=o.dtype) for o in executor.outputs])


@pytest.mark.parametrize(("workers", "dtype"), [(2, "float32"), (3, "float64")])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_stay_until_the_next_backward(name, workers, dtype):
    single, parallel = (bind(MODELS[name](), is_partitioned, workers, dtype) for is_partitioned in (False, True))

    def compare():
        for argument, gradient in single.grad_dict.items():
            found = parallel.grad_dict[argument].asnumpy()
            np.testing.assert_allclose(found, gradient.asnumpy(), rtol=1e-5, atol=1e-5, err_msg=argument)

    compare()  # zeros
    for step in range(3):
        for executor in (single, parallel):
            for array in executor.arg_dict.values():
                array *= 0.5
            run(executor)
        compare()
        for executor in (single, parallel):
            for array in executor.arg_dict.values():
                array += 1
            executor.forward(is_train=True)
        compare()
        for executor in (single, parallel):
            executor.forward(is_train=False)
            next(iter(executor.grad_dict.values()))[:] = step
        compare()


@pytest.mark.parametrize("build", [mlp, resnet_v1, *RECURRENT_MODELS.values()])
def test_models_keep_their_gradients_by_the_rules_of_lifetimes(build):
    model = build("float32") if build in RECURRENT_MODELS.values() else build()
    executor = tofu.partition(model.symbol, 2).simple_bind(mx.cpu(), **model.shapes)
    partition = executor.sharded.partition
    assert executor.sharded.kept_gradients == set(executor.sharded.differentiated)
    MXNET.backend.check(partition.training.keeping_gradients, partition.choices)
