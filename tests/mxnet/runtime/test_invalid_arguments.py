import re

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import mlp


@pytest.fixture
def model():
    return mlp()


@pytest.mark.parametrize(
    ("workers", "shape"),
    [(np.int64(4), (12, 17)), (2, [12, 17]), (2, np.array([12, 17])), (2, (np.int32(12), 17)), (36, (12, 17)), (29, (29, 17))],
)  # fmt: skip
def test_workers_and_shapes_may_be_lists_and_numpy_integers(model, workers, shape):
    assert tofu.partition(model.symbol, workers, data=shape).plan.workers == workers


@pytest.mark.parametrize("shape", [64, "64,17", None, (12.0, 17), (0, 17), (-1, 17), {12, 17}, "ab", (12, "17")])
def test_invalid_shape(model, shape):
    for partition in (tofu.partition, lambda symbol, workers, **shapes: tofu.bind(tofu.partition(symbol, 2), **shapes)):
        with pytest.raises(
            tofu.ShapeError, match=r"(?s)tuple of positive whole numbers.*" + re.escape(f"data={shape!r}")
        ):
            partition(model.symbol, 2, data=shape)


@pytest.mark.parametrize("contexts", [["cpu(0)", "cpu(1)"], "cpu(0)", mx.cpu(0), [0, 1], 2, {mx.cpu(0), mx.cpu(1)}])
def test_invalid_contexts(model, contexts):
    for call in (
        lambda: tofu.partition(model.symbol, contexts=contexts),
        lambda: tofu.bind(model.symbol, contexts, data=(12, 17)),
        lambda: tofu.bind(tofu.partition(model.symbol, 2), contexts, data=(12, 17)),
        lambda: tofu.mod.Module(model.symbol, context=contexts),
    ):
        with pytest.raises(tofu.DeviceError, match=r"MXNet contexts.*contexts?=\[mx.cpu\(0\), mx.cpu\(1\)\]"):
            call()


def test_a_partitioned_symbol_keeps_its_workers(model):
    symbol = tofu.partition(model.symbol, 2)
    assert tofu.mod.Module(symbol, ngpus=2).symbol is symbol
    assert tofu.mod.Module(symbol, context=mx.cpu()).symbol is symbol


def test_simple_bind_ignores_unknown_options_with_a_warning(model, caplog):
    symbol = tofu.partition(model.symbol, 2)
    symbol.simple_bind(mx.cpu(), data=(12, 17), layout="NC")
    assert "simple_bind ignores layout" in caplog.text
    assert np.isfinite(symbol.simple_bind(mx.cpu(), data=(12, 17)).forward()[0].asnumpy()).all()


def test_groups_placed_by_hand_keep_the_context_of_whole_arrays(caplog):
    with mx.AttrScope(ctx_group="first"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc0")
    with mx.AttrScope(ctx_group="second"):
        net = mx.sym.FullyConnected(net, num_hidden=4, name="fc1")
    groups = {"first": mx.cpu(1), "second": mx.cpu(2)}
    executor = tofu.partition(net, 2).simple_bind(mx.cpu(), group2ctx=groups, data=(4, 6))
    assert executor.arg_dict["fc0_weight"].context == mx.cpu(1)
    assert executor.grad_dict["fc1_weight"].context == mx.cpu(2)
    assert "the plan decides which worker computes what" in caplog.text
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 4)))
    assert tofu.memory_report(net, 2, data=(4, 6)).one_device.pool_bytes > 0


def test_an_infeasible_model_may_be_replicated(caplog):
    net = mx.sym.FullyConnected(mx.sym.Variable("data", shape=(1, 1)), num_hidden=1, name="fc")
    with pytest.raises(tofu.InfeasibleError, match="3 workers cannot be fed"):
        tofu.partition(net, 3).simple_bind(mx.cpu(), data=(1, 1))
    symbol = tofu.partition(net, 3, on_infeasible="replicate")
    assert symbol.verify(data=(1, 1)).agrees
    assert "3 workers cannot be fed" in caplog.text
