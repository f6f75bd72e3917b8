import numpy as np
import pytest
from mxnet import autograd
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon import gradient_scripts, training_scripts
from tests.mxnet.gluon.blocks import build, draw
from tests.shared.module_runs import assert_all_close

SCRIPTS = [
    script
    for module in (training_scripts, gradient_scripts)
    for script in vars(module).values()
    if getattr(script, "__module__", None) == module.__name__ and not isinstance(script, type)
]
SINGLE_PRECISION = (training_scripts.clip_gradients, training_scripts.use_estimator, training_scripts.cast_later)


def read(arrays):
    return [np.array(array.asnumpy()) for array in arrays]


@pytest.mark.filterwarnings("ignore:Cannot decide type:UserWarning")  # of SymbolBlock.imports
@pytest.mark.parametrize(
    ("script", "workers"),
    [(script, 2 + n % 2) for n, script in enumerate(SCRIPTS)],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_script_equals_one_device(script, workers, tmp_path):
    extra = [tmp_path] if script is training_scripts.save_and_load else []
    expected = read(script(lambda net: net, *extra))
    partitioned = []

    def partition(net):
        partitioned.append(tofu.gluon.partition(net, workers))
        return partitioned[-1]

    found = read(script(partition, *extra))
    assert {net.plan.workers for net in partitioned} == {workers}
    tolerance = 1e-5 if script in SINGLE_PRECISION else 1e-11
    assert len(found) == len(expected)
    for own, one_device in zip(found, expected, strict=True):
        assert own.shape == one_device.shape
        np.testing.assert_allclose(own, one_device, rtol=0, atol=tolerance * max(1, np.abs(one_device).max()))


@pytest.mark.parametrize("has_both_backwards", [False, True])
def test_moving_averages_of_calls_with_different_plans(has_both_backwards):
    """Calls of two sizes wait for their backward. Their plans place the averages differently."""

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
        autograd.backward([first, second] if has_both_backwards else [first])
        return read([net[3].running_mean.data(), net[3].running_var.data(), net[0].weight.grad()])

    assert_all_close(run(8), run(1), rtol=1e-10, atol=1e-10)
