"""The fuzzer finds planted bugs, and blames one device where it is wrong itself."""

from dataclasses import replace

import mxnet as mx
import pytest

from tests.campaigns.fuzz import campaign, judge
from tests.campaigns.fuzz.campaign import FuzzCase, run_seed
from tests.campaigns.fuzz.judge import DRAWS, LOOSEST, find_differences, measure_noise, size
from tests.campaigns.fuzz.models import make_sample
from tests.campaigns.fuzz.operators import apply_case, cases_by_operator
from tests.campaigns.fuzz.reference import compute_apart
from tests.campaigns.fuzz.sample import Growth
from tests.campaigns.fuzz.trial import Trial, try_sample
from tofu.mxnet.runtime.executor.executor import Executor


def test_planted_bug_is_found(monkeypatch):
    real = Executor.backward

    def backward(self, out_grads=None, is_train=True):
        real(self, out_grads, is_train)
        for name, request in self._grad_req.items():
            if request == "add":
                self.grad_dict[name][:] -= 1

    monkeypatch.setattr(Executor, "backward", backward)
    # MXNet ends no process for these models, and a process takes seconds.
    monkeypatch.setattr(judge, "run_apart", compute_apart)
    sample = make_sample(1, "chains")
    sample = replace(sample, requests=dict.fromkeys(sample.requests, "add"))
    outcome = try_sample(sample, 2, seed=1, randoms=0)
    assert "default plan: numbers" in outcome.problems[0]


def dropout(grow):
    case = next(case for case in cases_by_operator()["Dropout"] if case.attributes == {"p": 0.5})
    sample = grow.finish(mx.sym.Group(apply_case(grow, case, reads_model=False)))
    return replace(sample, requests=dict.fromkeys(sample.requests, "write"))


def test_gradients_follow_the_numbers_that_the_workers_drew():
    trial = Trial(dropout(Growth(0)), 2)
    assert trial.check("default", {}, thorough=True) is not None
    assert not trial.outcome.problems
    assert not trial.outcome.disputes


@pytest.mark.slow
def test_descriptions_decide_if_one_device_is_wrong():
    """MXNet's gradient of clip overwrites the sum of gradients if a tensor has eight readers or more."""
    grow = Growth(0, bits=3)
    weight = grow.parameter(4, 6)
    made = [mx.sym.clip(weight * (n + 1), -0.5, 0.5) if n % 2 else mx.sym.cumsum(weight, axis=0) for n in range(9)]
    sample = grow.finish(mx.sym.Group(made))
    sample = replace(sample, requests=dict.fromkeys(sample.requests, "write"))
    trial = Trial(sample, 2)
    wrong = trial.expected["gradient of v1_weight, step 0"] + 1
    trial.expected = {**trial.expected, "gradient of v1_weight, step 0": wrong}
    trial.check("default", {})
    assert not trial.outcome.problems
    (dispute,) = trial.outcome.disputes
    assert "they agree with " in dispute


def test_differences_that_rounding_explains_pass():
    """A rounding of a product of 10^11 changes its sine by 10^-4."""
    grow = Growth(0)
    sample = grow.finish(mx.sym.sin(mx.sym.prod(grow.parameter(4, 6) + 3, axis=(0, 1), keepdims=True)))
    trial = Trial(sample, 2)
    (name,) = [name for name in trial.expected if name.startswith("output 0, step 0")]
    noise = measure_noise(sample, trial.expected)
    assert size(noise[name]) > LOOSEST
    for times, is_found in ((1, False), (2 * DRAWS, True)):
        found = {name: trial.expected[name] + times * size(noise[name])}
        assert bool(find_differences(sample, found, trial.expected, noise)) is is_found


def test_seed_of_the_campaign_has_no_failure(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, "READY", tmp_path)
    monkeypatch.setattr(campaign, "silence_mxnet", lambda: None)
    case, result = run_seed(FuzzCase(1, "windows"))
    assert (result.stage, result.problems, result.plans["default"]) == ("done", [], 1)
    assert not case.is_without_model(result)
