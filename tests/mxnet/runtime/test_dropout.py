import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.training import largest_error
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.compare.values import draw_values

SHAPES = {"data": (12, 32)}


def network(mask=None):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=32, name="fc0")
    net = mx.sym.Dropout(net, p=0.5, name="drop") if mask is None else net * mask
    return mx.sym.Group([mx.sym.FullyConnected(net, num_hidden=6, name="fc1"), mx.sym.BlockGrad(net, name="kept")])


VALUES = draw_values(network(), SHAPES, {"data": "float64"})
REQUESTS = dict.fromkeys(VALUES, "write")


def run_dropout(hints, seed=5):
    """Return the results of a step, and dropout's mask: 2 for kept elements, 0 for others."""
    symbol = tofu.partition(network(), 4, hints=hints)
    mx.random.seed(seed)
    found = run_step(symbol, SHAPES, VALUES, REQUESTS).training
    return found, 2.0 * (found.outputs["kept_output"] != 0)


@pytest.mark.parametrize("hints", [{"drop": "i0"}, {"drop": "i1"}, {"drop": ("i0", "i1")}])
def test_outputs_and_gradients_use_the_drawn_masks(hints):
    found, mask = run_dropout(hints)
    shapes, requests = {**SHAPES, "mask": mask.shape}, {**REQUESTS, "mask": "null"}
    masked = network(mx.sym.Variable("mask"))
    assert largest_error(found, run_step(masked, shapes, {**VALUES, "mask": mask}, requests).training) < 1e-12


def test_masks_differ_between_workers():
    masks = run_dropout({"drop": "i0"})[1].reshape(4, 3, 32)
    assert all((mask != other).any() for i, mask in enumerate(masks) for other in masks[:i])
    assert 0.3 < np.mean(masks > 0) < 0.7


def test_a_seeded_run_repeats_and_another_seed_differs():
    first, again, other = (run_dropout({"drop": "i0"}, seed)[0] for seed in (5, 5, 6))
    assert largest_error(again, first) == 0
    assert (first.outputs["fc1_output"] != other.outputs["fc1_output"]).any()


def masked_weight(shape):
    mask = mx.sym.Dropout(mx.sym.Variable("weight", shape=shape), p=0.5, name="drop")
    product = mx.sym.FullyConnected(
        mx.sym.Variable("data"), weight=mask, num_hidden=shape[0], no_bias=True, name="product"
    )
    return mx.sym.Group([mx.sym.MakeLoss(product), mx.sym.BlockGrad(mask)])


@pytest.mark.parametrize("algorithm", ["exact", "data-parallel"])
def test_a_mask_of_a_replicated_tensor_is_drawn_once(algorithm):
    symbol = tofu.partition(masked_weight((8, 6)), 4, algorithm=algorithm, data=(12, 6))
    executor = symbol.simple_bind(mx.cpu(), data=(12, 6))
    for array in executor.arg_dict.values():
        array[:] = 1
    for _ in range(5):
        product, mask = (output.asnumpy() for output in executor.forward(is_train=True))
        executor.backward()
        np.testing.assert_array_equal(product, np.ones((12, 6)) @ mask.T)
        np.testing.assert_array_equal(executor.grad_dict["weight"].asnumpy(), 12 * mask)


def test_dropout_is_ignored_in_inference():
    assert tofu.partition(masked_weight((3, 2)), 8, for_training=False, data=(16, 2)).plan.workers == 8
