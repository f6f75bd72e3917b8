"""Two machines with two workers each, on loopback, train as one with the doubled batch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tofu
from tests.mxnet.runtime import on_machines
from tofu.errors import UnsupportedError

# In most runs 1e-15. In some, MXNet's server keeps double precision in single (a flag of it is not initialised).
NEAR = 1e-7
ROOT = Path(__file__).parents[3]


def start(path, **environment):
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, on_machines.__file__, str(path)], env=given)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each of the machines gets to, and one alone."""
    folder = tmp_path_factory.mktemp("machines")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_NODE_HOST": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port)}
    given |= {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1"}
    roles = ["scheduler", "server", "worker", "worker"]
    running = [start(folder / "machine.npz", **given, DMLC_ROLE=role) for role in roles]
    try:
        alone = start(folder / "alone.npz")
        assert [process.wait(timeout=120) for process in (*running[2:], alone)] == [0, 0, 0]
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [dict(np.load(folder / name)) for name in ("machine0.npz", "machine1.npz", "alone.npz")]


def test_machines_train_as_one_with_their_batches_together(results):
    """A Module, for which each machine draws other initial values, of which those of the first count; and a Gluon block."""
    first, second, alone = results
    assert {"a_weight", "c_weight"} <= alone.keys()
    for name, expected in alone.items():
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_allclose(first[name], expected, rtol=0, atol=NEAR)


def test_machines_that_update_one_at_a_time_are_refused():
    data, label = on_machines.list_batches(0, 1)[0]
    module = tofu.mod.Module(_build(), label_names=["label"], ngpus=2)
    module.bind([("data", data.shape)], [("label", label.shape)])
    module.init_params()
    with pytest.raises(UnsupportedError, match=r"kvstore='dist_async' updates on its servers.*Use 'dist_sync'"):
        module.init_optimizer("dist_async")


def _build():
    import mxnet as mx

    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="a")
    return mx.sym.LinearRegressionOutput(net, mx.sym.Variable("label"), name="loss")
