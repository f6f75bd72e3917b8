"""The benchmark that runs MXNet's own tests: what it counts, what it explains, and how it goes on after a crash."""

import pytest
from click.testing import CliRunner

from tests.campaigns import mxnet_tests
from tests.campaigns.mxnet_suite import reasons
from tests.campaigns.mxnet_tests import FOLDER, Outcome, Run, main, run_file

SUITE = """
import os
import mxnet as mx
from nose.tools import raises

def test_partitioned():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4)
    assert type(net.simple_bind(mx.cpu(), data=(4, 3))).__module__.startswith("tofu.")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (4, 3))])
    assert type(module._exec_group.execs[0]).__module__.startswith("tofu.")

def test_dies():
    os._exit(3)

@raises(ValueError)
def test_raises_nothing():
    pass
"""


def test_a_crash_loses_one_test_alone(tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "test_all.py").write_text(SUITE)
    found = {o.test: o for o in run_file(tmp_path, Run("test_all", "symbol", 2), "", (), 100)}
    assert {name: outcome.outcome for name, outcome in found.items()} == {
        "test_partitioned": "passed",
        "test_dies": "crashed",
        "test_raises_nothing": "failed",
    }
    assert found["test_dies"].error == "exit code 3"
    assert "DID NOT RAISE" in found["test_raises_nothing"].error


GLUON_SUITE = """
import mxnet as mx
import tofu

def make():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4))
    net.initialize()
    return net

def test_hybridized():
    net = make()
    net.hybridize()
    net(mx.nd.ones((4, 3)))
    assert net.plan.workers == 2

def test_called():
    net = make()
    net(mx.nd.ones((4, 3)))
    assert net.plan.workers == 2

def test_needs_double_precision():
    assert make()(mx.nd.ones((4, 3))).dtype.__name__ == "float64"
"""


@pytest.mark.parametrize(
    ("way", "passed"),
    [
        ("gluon", {"test_hybridized"}),
        ("gluon, float64", {"test_hybridized", "test_needs_double_precision"}),
        ("gluon call", {"test_hybridized", "test_called"}),
    ],
)
def test_blocks_are_partitioned_where_they_are_hybridized(way, passed, tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "test_all.py").write_text(GLUON_SUITE)
    found = list(run_file(tmp_path, Run("test_all", way, 2), "", (), 100))
    assert {outcome.test for outcome in found if outcome.outcome == "passed"} == passed


def test_what_passes_in_double_precision_is_rounding():
    bad, good = Outcome("a", "failed", "boom", 0.1), Outcome("a", "passed", "", 0.1)
    single, double = Run("test_file", "gluon", 2), Run("test_file", "gluon, float64", 2)
    console = mxnet_tests.Console(quiet=True)
    assert mxnet_tests.print_table({single: {"a": bad}, double: {"a": good}}, console) == []
    assert mxnet_tests.print_table({single: {"a": bad}, double: {"a": bad}}, console) == ["test_file::a"] * 2


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(mxnet_tests, "RESULTS", tmp_path / "results.jsonl")


def test_failures_of_one_device_are_none_of_ours(results, monkeypatch):
    """Of three failures one is MXNet's, one has a reason, and one is open."""
    monkeypatch.setattr(reasons, "REASONS", {("test_file", "b", ""): "what is known"})

    def fake(source, run, chosen, done, seconds):
        failing = {"a"} if run.way == "one device" else {"a", "b", "c"}
        return [Outcome(t, "failed" if t in failing else "passed", "boom", 0.1) for t in "abcd" if t not in done]

    monkeypatch.setattr(mxnet_tests, "run_file", fake)
    runs = [Run("test_file", "one device", 1), Run("test_file", "symbol", 2)]
    for _ in range(2):  # the second has nothing left to run
        mxnet_tests.run_all(None, runs, "", False, 1, mxnet_tests.Console(quiet=True))
    found = mxnet_tests.read_outcomes()
    assert len(mxnet_tests.RESULTS.read_text().splitlines()) == 8
    assert mxnet_tests.print_table(found, mxnet_tests.Console(quiet=True)) == ["test_file::c"]


def test_it_says_how_to_get_the_tests(results, tmp_path):
    result = CliRunner().invoke(main, ["--source", str(tmp_path)])
    assert result.exit_code == 1
    assert "git clone --depth 1 --branch 1.9.1 https://github.com/apache/mxnet mxnet" in result.output
