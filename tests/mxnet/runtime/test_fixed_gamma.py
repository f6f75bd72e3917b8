"""BatchNorm's fixed gamma is set to ones when one device sets it."""

import mxnet as mx
import pytest

import tofu
from tests.models.plain import PlainModel
from tofu.mxnet.backend.inference import build_inference
from tofu.mxnet.runtime.arrays.shards import count_writes


def build_fixed_gamma():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc0")
    net = mx.sym.FullyConnected(mx.sym.BatchNorm(net, fix_gamma=True, name="bn"), num_hidden=10, name="fc1")
    return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (12, 20)}, 10)


@pytest.mark.parametrize("batch_norm", [{}, {"bn": "b", "bn_backward": "b"}], ids=["whole", "parts"])
def test_operators_count_their_writes_of_states(batch_norm):
    """MXNet's engine runs readers of moving statistics and of a fixed gamma after the step that changes them."""
    symbol = tofu.partition(build_fixed_gamma().symbol, 4, hints=batch_norm)
    executor = tofu.bind(symbol, data=(12, 20))

    def count(*names):
        return [count_writes(array) for name in names for array in executor.variables[name].arrays]

    states = ("bn_moving_mean", "bn_moving_var")
    for _ in range(2):
        gamma, before = count("bn_gamma"), count(*states)
        executor.forward(is_train=True)
        assert all(now > then for now, then in zip(count("bn_gamma"), gamma, strict=True))
        executor.backward()
        assert all(now > then for now, then in zip(count(*states), before, strict=True))


@pytest.mark.parametrize("axis", ["c", "b"])
@pytest.mark.parametrize("is_requested", [True, False])
def test_a_fixed_gamma_is_one_after_training(axis, is_requested):
    model = build_fixed_gamma()
    symbol = tofu.partition(model.symbol, 4, hints={"bn": axis})
    asked = {n: "write" if is_requested or n == "fc1_weight" else "null" for n in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), grad_req=asked, **model.shapes)
    executor.arg_dict["bn_gamma"][:] = 3
    executor.forward(is_train=True)
    executor.backward()
    assert executor.arg_dict["bn_gamma"].asnumpy().tolist() == [1] * 16


@pytest.mark.parametrize("axes", [("c", "c"), ("b", "b"), ("b", "c")], ids=str)
def test_inference_leaves_a_fixed_gamma_unchanged(axes):
    """Inference may need other parts, because moving statistics are split like the backward operator."""
    symbol = tofu.partition(build_fixed_gamma().symbol, 4, hints=dict(zip(("bn", "bn_backward"), axes, strict=True)))
    executor = tofu.bind(symbol, data=(12, 20))
    assert ("_tofu_batch_norm_global" in build_inference(executor.partition).symbol.tojson()) == (axes == ("b", "c"))
    gamma = executor.variables["bn_gamma"]
    gamma.scatter(mx.nd.full(16, 3))
    executor.forward(is_train=False)
    executor.wait()
    assert gamma.gather().asnumpy().tolist() == [3] * 16
