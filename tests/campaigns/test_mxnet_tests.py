import pytest

from tests.campaigns import mxnet_tests
from tests.campaigns.mxnet_tests import FOLDER, SuiteRun, read_errors, run_file

SUITE = """
import os, time
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

def test_hangs():
    time.sleep(1000)

@raises(ValueError)
def test_raises_nothing():
    pass
"""


@pytest.fixture
def run_suite(tmp_path, monkeypatch):
    monkeypatch.setattr(mxnet_tests, "RESULTS", tmp_path / "results")
    (tmp_path / FOLDER).mkdir(parents=True)

    def run_suite(text, way):
        (tmp_path / FOLDER / "test_all.py").write_text(text)
        run = SuiteRun("test_all", way, 2)
        run_file(tmp_path, run, "", 20)
        return read_errors(run)

    return run_suite


@pytest.mark.slow
def test_crash_and_hang_lose_one_test_each(run_suite):
    errors = run_suite(SUITE, "symbol")
    assert errors.keys() == {"test_partitioned", "test_dies", "test_hangs", "test_raises_nothing"}
    assert errors["test_partitioned"] is None
    assert "crashed" in errors["test_dies"]
    assert "crashed" in errors["test_hangs"]
    assert "DID NOT RAISE" in errors["test_raises_nothing"]
