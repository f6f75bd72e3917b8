"""Two threads that train two modules: the numbers are those of one after the other, and MXNet is as it was."""

import threading

import mxnet as mx
import numpy as np
from mxnet.ndarray import register

import tofu
from tests.shared.module_runs import Case, batches, parameters_of, split_module, start
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.optimizer.shardwise import on_shards

CASES = [
    Case("adam", {"learning_rate": 0.01}),
    Case("lamb", {"learning_rate": 0.01}),
    Case("sgd", {"learning_rate": 0.1, "momentum": 0.9}),
]
STEPS = 12


def train(module, results, case):
    try:
        for batch in batches(STEPS, seed=len(str(case))):
            module.forward_backward(batch)
            module.update()
        results[str(case)] = parameters_of(module)
    except BaseException as error:
        results[str(case)] = error


def one_after_the_other():
    results = {}
    for case in CASES:
        train(start(split_module(case), case), results, case)
    return results


def side_by_side():
    results = {}
    modules = [start(split_module(case), case) for case in CASES]  # the same random numbers
    threads = [threading.Thread(target=train, args=(m, results, c)) for m, c in zip(modules, CASES, strict=True)]
    plain = threading.Thread(target=count_plain_operators, args=(threads, results))
    for thread in (*threads, plain):
        thread.start()
    for thread in (*threads, plain):
        thread.join()
    assert results.pop("plain") is None
    return results


def count_plain_operators(others, results):
    """A thread that knows no shards, while the others have MXNet's functions replaced."""
    results["plain"] = None
    while any(thread.is_alive() for thread in others):
        ones = mx.nd.ones((3, 4))
        ones[:] = ones + 1
        if ones.asnumpy().sum() != 24:
            results["plain"] = ones


def test_threads_train_as_one_after_the_other():
    before = register._imperative_invoke, mx.nd.NDArray.__setitem__
    expected, found = one_after_the_other(), side_by_side()
    for case in CASES:
        assert not isinstance(found[str(case)], BaseException), found[str(case)]
        for name, value in expected[str(case)].items():
            np.testing.assert_array_equal(found[str(case)][name], value)
    assert (register._imperative_invoke, mx.nd.NDArray.__setitem__) == before


def test_threads_that_leave_in_another_order_leave_mxnet_as_it_was():

    before = register._imperative_invoke, mx.nd.NDArray.__setitem__
    entered, left = threading.Event(), threading.Event()

    def enter_first_leave_last():
        with on_shards():
            entered.set()
            left.wait()

    thread = threading.Thread(target=enter_first_leave_last)
    thread.start()
    entered.wait()
    with on_shards(), on_shards():
        assert register._imperative_invoke is not before[0]
        left.set()
        thread.join()
        assert register._imperative_invoke is not before[0]
    assert (register._imperative_invoke, mx.nd.NDArray.__setitem__) == before


def test_threads_that_bind_leave_the_environment_as_it_was(monkeypatch):
    import os

    from tofu.mxnet.runtime.executor.bound_graph import ONEDNN_RECURRENCE, setting_variable

    monkeypatch.setenv(ONEDNN_RECURRENCE, "1")
    inside, outside = threading.Event(), threading.Event()

    def bind():
        with setting_variable(ONEDNN_RECURRENCE, "0"):
            inside.set()
            outside.wait(0.2)

    first, second = threading.Thread(target=bind), threading.Thread(target=bind)
    first.start()
    inside.wait()
    second.start()
    first.join()
    outside.set()
    second.join()
    assert os.environ[ONEDNN_RECURRENCE] == "1"


def test_threads_plan_and_bind_at_once():
    results = {}

    def build(workers):
        case = CASES[0]
        module = start(tofu.mod.Module(split_module(case).symbol.whole, ngpus=workers), case)
        train(module, results, Case("adam", {"learning_rate": 0.01, "beta1": workers}))

    threads = [threading.Thread(target=build, args=(workers,)) for workers in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert all(isinstance(result, dict) for result in results.values()), results


def test_only_the_thread_of_an_optimizer_computes_on_shards():
    """Elsewhere they are what MXNet cannot read, whoever is inside meanwhile."""
    module = start(split_module(CASES[0]), CASES[0])
    weight = ShardedArray(next(iter(module.executor.variables.values())))
    failed = []

    def add():
        try:
            mx.nd.elemwise_add(weight, weight)
        except Exception as error:
            failed.append(error)

    with on_shards():
        assert isinstance(mx.nd.elemwise_add(weight, weight), ShardedArray)
        thread = threading.Thread(target=add)
        thread.start()
        thread.join()
    assert len(failed) == 1
