"""What Gluon's users write runs on workers as on one device: each script runs twice, and differs by the one line alone."""

from __future__ import annotations

import numpy as np
import pytest
from mxnet import autograd
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon import gradient_scripts, training_scripts
from tests.mxnet.gluon.blocks import build, draw

SCRIPTS = [
    training_scripts.train_perceptron,
    training_scripts.train_images,
    training_scripts.trainer_before_partition,
    training_scripts.continue_after_training,
    training_scripts.clip_gradients,
    gradient_scripts.keep_arrays,
    gradient_scripts.keep_arrays_of_before,
    training_scripts.set_values,
    gradient_scripts.set_values_before_backward,
    gradient_scripts.add_gradients,
    gradient_scripts.zero_before_backward,
    gradient_scripts.call_twice,
    gradient_scripts.backward_apart,
    gradient_scripts.differentiate_inputs,
    gradient_scripts.differentiate_inputs_alone,
    gradient_scripts.averages_of_two_calls,
    gradient_scripts.freeze,
    training_scripts.several_inputs,
    training_scripts.recurrent,
    training_scripts.hybridize_again,
    training_scripts.save_and_load,
    training_scripts.cast_later,
    gradient_scripts.grow_between_call_and_backward,
    training_scripts.initialize_again,
    gradient_scripts.gradients_of_zeros_again,
    training_scripts.use_estimator,
]
SINGLE = (
    training_scripts.clip_gradients,
    training_scripts.use_estimator,
    training_scripts.cast_later,
)  # in single precision


def read(arrays):
    return [np.array(array.asnumpy()) for array in arrays]


@pytest.mark.filterwarnings(
    "ignore:Cannot decide type:UserWarning"
)  # of SymbolBlock.imports, which says no type of the data
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.parametrize("workers", [2, 3])
def test_script_gives_what_one_device_gives(script, workers, tmp_path):
    extra = [tmp_path] if script is training_scripts.save_and_load else []
    expected = read(script(lambda net: net, *extra))
    partitioned = []

    def partition(net):
        partitioned.append(tofu.gluon.partition(net, workers))
        return partitioned[-1]

    found = read(script(partition, *extra))
    assert {net.plan.workers for net in partitioned} == {workers}
    tolerance = 1e-5 if script in SINGLE else 1e-11
    assert len(found) == len(expected)
    for own, one_device in zip(found, expected, strict=True):
        assert own.shape == one_device.shape
        np.testing.assert_allclose(own, one_device, rtol=0, atol=tolerance * max(1, np.abs(one_device).max()))


@pytest.mark.parametrize("both", [False, True])
def test_averages_move_on_where_calls_have_them_in_different_places(both):
    """Calls of two sizes wait for their backward together, by plans that have the averages elsewhere."""

    def run(workers):
        net = build(
            nn.Conv2D(8, 3, strides=2, padding=1, use_bias=False, prefix="a_"),
            nn.HybridLambda(lambda F, x: F.pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))),
            nn.Conv2D(2, (3, 2), padding=1, prefix="b_"),
            nn.BatchNorm(prefix="bn_"),
            nn.Activation("tanh", prefix="tanh_"),
            nn.AvgPool2D(2, strides=1, prefix="pool_"),
            nn.Dense(10, prefix="out_"),
        )
        net(draw(8, 1, 5, 5))
        for parameter in net.collect_params(".*weight").values():
            parameter.set_data(draw(*parameter.shape))
        net = tofu.gluon.partition(net, workers)
        with autograd.record():
            first, second = net(draw(8, 1, 5, 5)).sum(), net(draw(4, 1, 5, 5)).sum()
        autograd.backward([first, second] if both else [first])
        return read([net[3].running_mean.data(), net[3].running_var.data(), net[0].weight.grad()])

    for own, one_device in zip(run(8), run(1), strict=True):
        np.testing.assert_allclose(own, one_device, rtol=1e-10, atol=1e-10)
