import _thread
import signal
import threading

import numpy as np
import pytest
from mxnet import autograd, gluon

import tofu
from tests.mxnet.gluon.blocks import build_perceptron, draw, train
from tofu.errors import UnsupportedError
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor


def test_an_interrupted_backward_raises_keyboard_interrupt(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its jobs ignore it
    net = tofu.gluon.partition(build_perceptron(), 2)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    train(net, trainer, 1)
    with autograd.record():
        expected = net(draw(6, 5)).sum()
    expected.backward()
    gradient = net[0].weight.grad().asnumpy()
    backward = ShardedExecutor.backward

    def interrupted(executor):
        signal.raise_signal(signal.SIGINT)
        backward(executor)

    with autograd.record():
        loss = net(draw(6, 5)).sum()
    monkeypatch.setattr(ShardedExecutor, "backward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    np.testing.assert_allclose(net[0].weight.grad().asnumpy(), gradient, rtol=1e-12)
    train(net, trainer, 1)


def test_threads_may_call_one_block():
    net = tofu.gluon.partition(build_perceptron(), 2)
    net(draw(6, 5))
    seeds = range(4)
    expected = [net(draw(6, 5, seed=seed)).asnumpy() for seed in seeds]
    data = [draw(6, 5, seed=seed) for seed in seeds]
    found = [[] for _ in seeds]

    def call(seed):
        for _ in range(5):
            found[seed].append(net(data[seed]).asnumpy())

    threads = [threading.Thread(target=call, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, [wanted] * 5, rtol=1e-12)


def test_a_call_from_a_thread_of_mxnets_engine_is_refused():
    """Such a thread runs operators that a backward waits for. Python does not know it as a `Thread`."""
    net = tofu.gluon.partition(build_perceptron(), 2)
    net(draw(6, 5))
    raised = []
    is_over = threading.Event()

    def call():
        try:
            net(draw(6, 5))
        except UnsupportedError as error:
            raised.append(str(error))
        is_over.set()

    with autograd.record():
        loss = net(draw(6, 5)).sum()
    loss.backward()
    _thread.start_new_thread(call, ())
    assert is_over.wait(timeout=20)
    assert "Call it outside of the operator" in raised[0]
    net[0].weight.grad().wait_to_read()
