"""Threads that train several modules at once get the same numbers as one after the other, and leave MXNet unchanged."""

import os
import threading

import mxnet as mx
from mxnet.ndarray import register

import tofu
from tests.shared.module_runs import ModuleCase, assert_all_close, batches, parameters_of, split_module, start
from tofu.mxnet.runtime.executor.bound_graph import ONEDNN_RECURRENCE, setting_variable
from tofu.mxnet.runtime.optimizer.shardwise import on_shards

CASES = [
    ModuleCase("adam", {"learning_rate": 0.01}),
    ModuleCase("lamb", {"learning_rate": 0.01}),
    ModuleCase("sgd", {"learning_rate": 0.1, "momentum": 0.9}),
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


def run_threads(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def train_in_turn():
    results = {}
    for case in CASES:
        train(start(split_module(case), case), results, case)
    return results


def train_at_once():
    results = {}
    modules = [start(split_module(case), case) for case in CASES]
    threads = [threading.Thread(target=train, args=(m, results, c)) for m, c in zip(modules, CASES, strict=True)]
    plain = threading.Thread(target=count_plain_operators, args=(threads, results))
    run_threads([*threads, plain])
    assert results.pop("plain") is None
    return results


def count_plain_operators(others, results):
    results["plain"] = None
    while any(thread.is_alive() for thread in others):
        ones = mx.nd.ones((3, 4))
        ones[:] = ones + 1
        if ones.asnumpy().sum() != 24:
            results["plain"] = ones


def test_threads_train_as_one_after_the_other():
    before = register._imperative_invoke, mx.nd.NDArray.__setitem__
    expected, found = train_in_turn(), train_at_once()
    for case in CASES:
        assert not isinstance(found[str(case)], BaseException), found[str(case)]
        assert_all_close(found[str(case)], expected[str(case)], rtol=0)
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
        train(module, results, ModuleCase("adam", {"learning_rate": 0.01, "beta1": workers}))

    run_threads([threading.Thread(target=build, args=(workers,)) for workers in (2, 3, 4)])
    assert len(results) == 3
    assert all(isinstance(result, dict) for result in results.values()), results
