import os
import pickle
import signal
import sys
import time

import mxnet as mx
import pytest
from hypothesis import given, settings

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.errors import UnsupportedError
from tofu.mxnet.verify import Case, Fixed, verify_case
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.kernels import is_refusal
from tofu.mxnet.verify.sandbox import ProcessEndedError, Sandbox
from tofu.mxnet.verify.trials import try_variants
from tofu.mxnet.verify.variants import variants
from tofu.tdl import Sum, interpreter

CASE = Case("FullyConnected", {"num_hidden": 5}, [(3, 7), (5, 7), (5,)])


@settings(database=None, max_examples=20, deadline=None)
@given(variants(CASE))
def test_equal_extents_stay_equal(variant):
    data, weight, *bias = (given.shape for given in variant.numbers)
    assert weight[0] == variant.attributes["num_hidden"]
    assert data[1] == weight[1]
    assert bias in ([], [weight[:1]])


def test_the_smallest_failing_signature_is_found(descriptions):
    def wrong(data, weight, bias=None, *, num_hidden, no_bias=False):
        return lambda b, h: Sum(lambda k: data[b, k] * weight[h, k])

    descriptions["FullyConnected"] = DESCRIPTIONS.describe(wrong, ("FullyConnected",), bound={"num_hidden": "h"})
    trials = try_variants(CASE, 20, verify_case)
    assert trials.failure is not None
    assert [given.shape for given in trials.failure.case.numbers] == [(1, 1), (1, 1), (1,)]
    assert "output 0 of the description is off by" in trials.failure.problems[0]


@pytest.mark.slow
def test_the_reproducer_reproduces(descriptions):
    descriptions["tanh"] = DESCRIPTIONS.describe(lambda data: lambda *i: data[i], ("tanh",))
    failure = try_variants(Case("tanh", {}, [(5, 7)]), 5, verify_case).failure
    _, reproducer = (line.strip() for line in repr(failure).splitlines()[-2:])
    names = {}
    exec(f"from tofu.mxnet.verify import *\nreport = {reproducer.removeprefix('print(').removesuffix(')')}", names)
    assert names["report"].problems == failure.problems


@pytest.mark.parametrize("error", [MemoryError("25.3 GiB"), RuntimeError("vector::at")])
def test_other_errors_are_failures(error):
    def verify(case):
        raise error

    failure = try_variants(CASE, 5, verify).failure
    assert failure is not None
    assert failure.problems == (f"FullyConnected: {type(error).__name__}: {error}",)


@pytest.mark.parametrize("error", [mx.MXNetError("Check failed: a == b (1 vs. 2)"), UnsupportedError("not described")])
def test_refusals_are_recognised_by_type_and_text(error):
    def verify(case):
        raise error

    trials = try_variants(CASE, 5, verify)
    assert (trials.verified, trials.failure) == (0, None)
    assert trials.refused > 0
    assert is_refusal(error) is isinstance(error, mx.MXNetError)
    assert not is_refusal(mx.MXNetError("segmentation fault"))


def test_mxnet_s_own_refusals_are_known():
    refused = [
        Case("elemwise_add", {}, [(4, 5), (4, 6)]),
        Case("gather_nd", {}, [(2, 2), Fixed(((5.0,), (7.0,)))], ()),
        Case("Convolution", {"kernel": (3,), "num_filter": 2, "layout": "NWC"}, [(2, 3, 5), (2, 3, 3), (2,)]),
    ]
    for case in refused:
        with pytest.raises((RuntimeError, IndexError)) as caught:
            verify_case(case)
        assert is_refusal(caught.value), case


def test_signatures_that_are_too_large_are_drawn_again(monkeypatch):
    monkeypatch.setattr(interpreter, "MOST_POINTS", 50)
    trials = try_variants(Case("dot", {}, [(5, 7), (7, 4)]), 10, verify_case)
    assert trials.failure is None
    assert trials.verified == 10
    with pytest.raises(interpreter.TooManyPointsError, match=r"has 140 points .* at most 50 are executed. Use smaller"):
        verify_case(Case("dot", {}, [(5, 7), (7, 4)]))


def test_without_hypothesis_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(UnsupportedError, match=r"pip install hypothesis"):
        try_variants(CASE, 5, verify_case)


@pytest.mark.slow
def test_every_sandbox_can_be_terminated():
    """Otherwise a process that still has one cannot exit."""
    with Sandbox(), Sandbox() as second:
        assert second.call(max, 1, 2) == 2
        second._process.terminate()
        second._process.join(timeout=60)
        assert second._process.exitcode == -signal.SIGTERM


@pytest.mark.slow
def test_a_sandbox_survives_errors_aborts_and_hangs():
    with Sandbox(longest_call_seconds=20) as sandbox:
        with pytest.raises(ZeroDivisionError):
            sandbox.call(divmod, 1, 0)
        with pytest.raises(MemoryError):
            sandbox.call(bytes, 100 * 2**30)
        with pytest.raises(ProcessEndedError):
            sandbox.call(os.abort)
        assert sandbox.call(max, 2, 3) == 3
        sandbox._longest_call_seconds = 0.1
        with pytest.raises(ProcessEndedError):
            sandbox.call(time.sleep, 60)


def test_every_case_can_be_sent_to_the_sandbox():
    sent = pickle.loads(pickle.dumps(load_cases()))
    assert list(map(repr, sent)) == list(map(repr, load_cases()))  # NaN equals nothing
