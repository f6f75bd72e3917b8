"""The fuzzer finds a planted bug, shrinks it, and writes a program that shows it."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from multiprocessing import ProcessError

import mxnet as mx
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.campaigns.fuzz import judge, reference
from tests.campaigns.fuzz.__main__ import main
from tests.campaigns.fuzz.campaign import Record, read_records, run_seed
from tests.campaigns.fuzz.judge import DRAWS, LOOSEST, find_differences, measure_noise, size
from tests.campaigns.fuzz.models import KINDS, choose_kind, choose_workers, make_sample
from tests.campaigns.fuzz.operators import apply_case, cases_by_operator, list_signatures
from tests.campaigns.fuzz.reference import STEPS, compute_apart, run_alone, run_apart, value_of
from tests.campaigns.fuzz.sample import Growth
from tests.campaigns.fuzz.script import write_script
from tests.campaigns.fuzz.shrink import shrink
from tests.campaigns.fuzz.tally import find_reasons, print_strategies
from tests.campaigns.fuzz.trial import Trial, try_sample
from tests.campaigns.fuzz.untaken import run_untaken
from tofu import _mxnet
from tofu.mxnet.frontend.read_symbol import wrap_symbol
from tofu.mxnet.runtime.executor.executor import Executor
from tofu.mxnet.verify.record import read_record


def forget_addends(monkeypatch):
    """What is to be added to gradients is lost."""
    real = Executor.backward

    def backward(self, out_grads=None, is_train=True):
        real(self, out_grads, is_train)
        for name, request in self._grad_req.items():
            if request == "add":
                self.grad_dict[name][:] -= 1

    monkeypatch.setattr(Executor, "backward", backward)


def test_a_planted_bug_is_found_and_shrunk(monkeypatch, capsys):
    forget_addends(monkeypatch)
    # MXNet ends no process for these models, and a process takes seconds.
    monkeypatch.setattr(judge, "run_apart", compute_apart)
    sample = make_sample(1, "chains")
    sample = replace(sample, requests=dict.fromkeys(sample.requests, "add"))
    outcome = try_sample(sample, 2, seed=1, randoms=0)
    assert outcome.failures[0].kind == "numbers"
    found = shrink(sample, outcome.failures[0], seconds=8)
    asked = [request for request in found.sample.requests.values() if request != "null"]
    assert asked == ["add"]
    assert (
        len(found.sample.symbol.get_internals().list_outputs()) < len(sample.symbol.get_internals().list_outputs()) / 2
    )
    assert found.failure.workers == 2
    exec(write_script(found), {})
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("gradient of")]
    assert len(lines) == 1
    assert "off by 1," in lines[0]


def test_a_seed_is_the_same_model_each_time():
    for kind in KINDS:
        one, other = (make_sample(3, kind) for _ in range(2))
        assert one.symbol.tojson() == other.symbol.tojson()
        assert {name: value.tobytes() for name, value in one.values.items()} == {
            name: value.tobytes() for name, value in other.values.items()
        }


def test_records_are_read_back(tmp_path):
    seed = next(seed for seed in range(99) if choose_kind(seed, "all") == "windows")
    record = run_seed("commit", "all", seed, lambda: None)
    assert not record.failures
    path = tmp_path / "fuzz.jsonl"
    path.write_text(json.dumps(vars(record)) + "\n")
    (again,) = read_records(path)
    assert (again.seed, again.plans, again.stage) == (seed, record.plans, "done")
    assert record.plans["default"] == 1


def test_strategies_that_no_plan_took_are_listed(capsys):
    """Apart from those that no model offered: a gradient that is divided by the number of labels is not split by classes."""
    part, counts = "_tofu_softmax_output_gradient_by_count", {"b": 3, "s0": 0}
    taken = {(part, axis): count for axis, count in counts.items()} | {(part, ""): 4}
    print_strategies(taken, read_record(), Console(width=10_000))
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if line.startswith("never"))
    listed = {
        title: dict(one.split(" by ") for one in found.split("; ") if " by " in one) for title, found in lines.items()
    }
    assert listed["never taken"] == {part: "s0"}
    assert part not in lines["never split"]
    assert listed["never offered, of parts that share the choice of their operator"][part] == "b0, k, b1, s1"


def test_strategies_that_no_plan_took_are_taken_on_purpose():
    """The fifth dimension of a gradient, which few models have."""
    one = "_backward_max", "i4"
    record = Record("commit", "all", 6002113, "layers", workers=2, taken=[(*one, 0)])
    (again,) = run_untaken([record])
    assert not again.failures
    assert {(op, axis): count for op, axis, count in again.taken}[one] > 0


def test_options_are_there():
    said = CliRunner().invoke(main, ["--help"]).output
    for option in (
        "--seed",
        "--count",
        "--seconds",
        "--jobs",
        "--focus",
        "--results",
        "--shrink",
        "--table",
        "--commits",
        "--untaken",
    ):
        assert option in said


def test_kinds_of_models_are_as_they_are_told():
    """Chains have up to 14 readers of a tensor; they and recurrences run mostly over 8 or 12 workers."""
    most = 0
    for seed in range(20):
        nodes = json.loads(make_sample(seed, "chains").symbol.tojson())["nodes"]
        readers = Counter(tuple(entry[:2]) for node in nodes for entry in node["inputs"])
        most = max(most, *readers.values())
    assert 8 < most <= 2 * 14  # a product may read its own weight twice
    for kind in ("chains", "recurrences"):
        assert sum(choose_workers(seed, kind) in (8, 12) for seed in range(100)) > 60


def test_each_signature_comes_first_once():
    signatures = list_signatures()
    assert {op for op, _ in signatures} == cases_by_operator().keys()
    assert len(set(signatures)) == len(signatures) <= 900
    for seed in range(10):
        nodes = json.loads(make_sample(seed, "operators").symbol.tojson())["nodes"]
        assert signatures[seed][0] in {node["op"] for node in nodes}


def test_every_described_gradient_is_asked_for():
    asked = set()
    for case in (case for cases in cases_by_operator().values() for case in cases):
        grow = Growth(0)
        symbol = mx.sym.Group(apply_case(grow, case, reads_model=False))
        wanted = [name for name in symbol.list_arguments() if not name.startswith("given")]
        if wanted:
            training = wrap_symbol(_mxnet.training_graph(symbol.handle.value, wanted))
            asked |= {node["op"] for node in _mxnet.nodes(training.handle.value)}
    described = {op for op in read_record() if "_backward_" in op and not op.startswith("_tofu")}
    assert described <= asked


def dropout(grow):
    case = next(case for case in cases_by_operator()["Dropout"] if case.attributes == {"p": 0.5})
    sample = grow.finish(mx.sym.Group(apply_case(grow, case, reads_model=False)))
    return replace(sample, requests=dict.fromkeys(sample.requests, "write"))


def test_gradients_are_those_of_the_numbers_that_the_workers_drew():
    trial = Trial(dropout(Growth(0)), 2)
    assert trial.check("default", {}, thorough=True) is not None
    assert not trial.outcome.failures
    assert not trial.outcome.disputes


def test_a_wrong_gradient_of_drawn_numbers_is_found(monkeypatch):
    forget_addends(monkeypatch)
    sample = dropout(Growth(0))
    trial = Trial(replace(sample, requests=dict.fromkeys(sample.requests, "add")), 2)
    trial.check("default", {})
    (failure,) = trial.outcome.failures
    assert failure.message.startswith("gradient of fixed")


def test_wrong_drawn_numbers_are_found():
    sample = dropout(Growth(0))
    (name,) = sample.relations
    more = {name: lambda inputs, outputs: [outputs[0] + 1, outputs[1]]}
    trial = Trial(replace(sample, relations=more), 2)
    trial.check("default", {})
    (failure,) = trial.outcome.failures
    assert failure.message.startswith("output 0")


def test_what_cannot_be_split_is_listed_with_the_reason():
    whole = {"_eye", "_backward__contrib_MultiBoxPrior", "_backward__contrib_Proposal"}
    assert not any(read_record()[op].axes for op in whole)
    reasons = find_reasons(whole)
    assert reasons.keys() == whole
    assert "a part would count i from zero" in reasons["_eye"]


def test_where_one_device_is_wrong_the_descriptions_are_asked():
    """MXNet has the gradient of clip overwrite the sum that it should be added to, where a tensor has eight readers and more."""
    grow = Growth(0, bits=3)
    weight = grow.parameter(4, 6)
    made = [mx.sym.clip(weight * (n + 1), -0.5, 0.5) if n % 2 else mx.sym.cumsum(weight, axis=0) for n in range(9)]
    sample = grow.finish(mx.sym.Group(made))
    sample = replace(sample, requests=dict.fromkeys(sample.requests, "write"))
    trial = Trial(sample, 2)
    wrong = trial.expected["gradient of v1_weight, step 0"] + 1
    trial.expected = {**trial.expected, "gradient of v1_weight, step 0": wrong}
    trial.check("default", {})
    assert not trial.outcome.failures
    assert [dispute.kind for dispute in trial.outcome.disputes] == ["one device"]


def end(_):
    os._exit(1)


def test_a_judge_that_mxnet_ends_says_so(monkeypatch):
    """The executor of `compute_apart` corrupts the heap for some models."""
    sample = make_sample(1, "chains")
    found, expected = run_apart(sample), run_alone(sample)
    assert found["output 0, step 0"].tobytes() == expected["output 0, step 0"].tobytes()
    monkeypatch.setattr(reference, "compute_apart", end)
    with pytest.raises(ProcessError, match="ended the process"):
        run_apart(sample)


def test_what_is_scored_follows_from_the_states_after_training():
    """MXNet moves BatchNorm's statistics in its backward pass, which runs where any gradient by its inputs is asked for."""
    grow = Growth(0)
    norm = mx.sym.BatchNorm(grow.data(6, 5), fix_gamma=False, eps=0.01, name="bn")[0]
    sample = grow.finish(mx.sym.Group([mx.sym.BlockGrad(norm), mx.sym.sin(grow.parameter(3))]))
    sample = replace(sample, requests=dict.fromkeys(sample.requests, "null") | {"v2_weight": "write"})
    expected = run_alone(sample)
    x, gamma, beta = (value_of(sample, name, STEPS - 1) for name in ("data1", "bn_gamma", "bn_beta"))
    mean, variance = (expected[f"bn_moving_{kind}, step {STEPS - 1}"] for kind in ("mean", "var"))
    np.testing.assert_allclose(
        expected["output 0, scored"], (x - mean) / np.sqrt(variance + 0.01) * gamma + beta, rtol=1e-9, atol=1e-12
    )


def test_digits_that_nobody_knows_are_not_held_against_the_workers():
    """A rounding of a product of 10^11 moves its sine by 10^-4; what is wrong by more is found all the same."""
    grow = Growth(0)
    sample = grow.finish(mx.sym.sin(mx.sym.prod(grow.parameter(4, 6) + 3, axis=(0, 1), keepdims=True)))
    trial = Trial(sample, 2)
    (name,) = [name for name in trial.expected if name.startswith("output 0, step 0")]
    noise = measure_noise(sample, trial.expected)
    assert size(noise[name]) > LOOSEST
    for times, is_found in ((1, False), (2 * DRAWS, True)):
        found = {name: trial.expected[name] + times * size(noise[name])}
        assert bool(find_differences(sample, found, trial.expected, noise)) is is_found
