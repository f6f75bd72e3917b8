import sys

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import ArgumentTypeError, UnsupportedError
from tofu.mxnet.runtime.symbol.devices import resolve_contexts

NET = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")


def step_of_jax(state, batch):
    return state * batch


def test_symbols_are_partitioned():
    for made in (
        tofu.partition(NET, ngpus=2, data=(4, 6)),
        tofu.partition(NET, 2, data=(4, 6)),
        tofu.partition(NET, workers=2, data=(4, 6)),
        tofu.partition(symbol=NET, ngpus=2, data=(4, 6)),
        tofu.mxnet.partition(NET, 2, data=(4, 6)),
    ):
        assert isinstance(made, tofu.PartitionedSymbol)
        assert made.plan.workers == 2
    assert tofu.partition(made, ngpus=4, data=(4, 8)).plan.workers == 4


def test_gluon_blocks_are_partitioned():
    net = mx.gluon.nn.Dense(8, in_units=6)
    net.initialize()
    assert tofu.partition(net, workers=2) is net
    assert net(mx.nd.ones((4, 6))).shape == (4, 8)


def test_jax_steps_are_partitioned():
    step = lambda x: (x @ x).sum()  # noqa: E731
    made = tofu.partition(step, 1, (np.ones((64, 64), np.float32),))
    assert made.plan.workers == 1
    assert float(made(np.ones((64, 64), np.float32))) == 64**3

    @tofu.partition(workers=1)
    def doubled(x):
        return 2 * x

    np.testing.assert_array_equal(doubled(np.ones(3)), [2, 2, 2])


@pytest.mark.parametrize("model", [None, "model-symbol.json", 3])
def test_other_models_are_refused(model, monkeypatch):
    monkeypatch.delitem(sys.modules, "mxnet")
    with pytest.raises(ArgumentTypeError, match=r"takes an mx\.sym\.Symbol, a Gluon block, or a training step for JAX"):
        tofu.partition(model, 4)


@pytest.mark.parametrize(("arguments", "shapes"), [((4, (1, 2)), {}), ((4,), {"data": (4, 6)}), ((), {"workers": 4})])
def test_frontiers_of_jax_steps_are_refused(arguments, shapes):
    with pytest.raises(
        UnsupportedError, match=r"frontier is for an MXNet symbol, and .*step.* is a step for JAX\. For a"
    ):
        tofu.frontier(step_of_jax, *arguments, **shapes)


def test_frontiers_take_shapes_by_name():
    with pytest.raises(ArgumentTypeError, match=r"was called with \(4, 6\)\. Pass only the shapes by name: .*data="):
        tofu.frontier(NET, 2, (4, 6))
    with pytest.raises(ArgumentTypeError, match="was called without the number of devices"):
        tofu.frontier(NET, data=(4, 6))


def test_ngpus_and_workers_together_are_refused():
    with pytest.raises(ArgumentTypeError, match="passed twice"):
        tofu.partition(NET, 2, workers=2)


@pytest.mark.parametrize(("gpus", "kind"), [(0, "cpu"), (4, "gpu"), (8, "gpu")])
def test_workers_are_gpus_if_there_are_enough(gpus, kind, monkeypatch):
    monkeypatch.setattr(mx.context, "num_gpus", lambda: gpus)
    assert resolve_contexts(4) == tuple(mx.Context(kind, i) for i in range(4))


def test_too_few_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(mx.context, "num_gpus", lambda: 3)
    with pytest.raises(tofu.DeviceError, match=r"4 workers were requested, but MXNet sees 3 GPUs\. Use ngpus=3"):
        resolve_contexts(4)
