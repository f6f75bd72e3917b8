"""What goes wrong while a partitioned model runs: an error that says what it was, and the next step is as it would have been."""

import re

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import mlp
from tests.mxnet.runtime.refusals import refuses


@pytest.fixture
def model():
    return mlp()


def test_data_of_the_wrong_shape_at_run_time(model):
    symbol = tofu.partition(model.symbol, 2)
    executor = symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(12,))
    with refuses(tofu.ShapeError, "data", "\\(12, 17\\)", "\\(12, 16\\)"):
        executor.forward(is_train=True, data=mx.nd.ones((12, 16)))
    executor.forward(is_train=True, data=mx.nd.ones((12, 17)))
    assert executor.outputs[0].shape == (12, 10)


@pytest.fixture
def cholesky():
    """A batched Cholesky factorisation; it throws for a matrix that is not positive definite."""
    return mx.sym.linalg.potrf(mx.sym.Variable("data") * mx.sym.Variable("scale"), name="factor")


def test_an_operator_that_throws_on_one_worker(cholesky):
    executor = tofu.partition(cholesky, 4).simple_bind(mx.cpu(), data=(8, 3, 3), scale=(8, 3, 3))
    executor.arg_dict["scale"][:] = 1
    good = np.repeat(4 * np.eye(3)[None], 8, axis=0)
    bad = good.copy()
    bad[5] *= -1  # on the third of four workers

    def step(data):
        output = executor.forward(is_train=True, data=mx.nd.array(data))[0]
        executor.backward([mx.nd.ones((8, 3, 3))])
        return output.asnumpy(), executor.grad_dict["scale"].asnumpy()

    before = step(good)
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="positive definite"):
            step(bad)
        assert (executor.arg_dict["scale"].asnumpy() == 1).all()
        for found, expected in zip(step(good), before, strict=True):
            assert (found == expected).all()


def test_outputs_that_there_are_not(model):
    executor = tofu.bind(tofu.partition(model.symbol, 2), data=(12, 17), softmax_label=(12,))
    executor.forward(False)
    assert executor.output(0).shape == (12, 10)
    for index in (1, -1):
        with refuses(tofu.TofuError, f"no output {index}", "has 1, counted from 0"):
            executor.output(index)


@pytest.mark.parametrize("region", [((0, 13), (0, 17)), ((-1, 4), (0, 17)), ((4, 2), (0, 17)), ((0, 12),)])
def test_regions_outside_a_tensor(model, region):
    data = tofu.bind(tofu.partition(model.symbol, 2), data=(12, 17), softmax_label=(12,)).variables["data"]
    assert data.gather_region(((3, 12), (0, 17))).shape == (9, 17)
    with refuses(tofu.ShapeError, "data has the shape \\(12, 17\\)", re.escape(str(list(region))), "is not inside"):
        data.gather_region(region)
