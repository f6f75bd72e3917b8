"""Two machines with two workers each, on loopback, train as one with the joint batch."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from tests.mxnet.runtime import on_machines
from tests.mxnet.slow_writes import peek, write_slowly
from tofu.mxnet.runtime.cluster.cluster import Cluster

# In some runs MXNet's server stores double precision as single, due to an uninitialised flag.
NEAR = 1e-7
NEAR_ON_SERVERS = 1e-6
ROOT = Path(__file__).parents[3]


def start(path, **environment):
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, on_machines.__file__, str(path)], env=given)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
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


@pytest.mark.slow
def test_machines_train_as_one_with_the_joint_batch(results):
    first, second, alone = results
    assert {"a_weight", "c_weight", "servers c_weight"} <= first.keys()
    for name, found in first.items():
        expected = alone[name.removeprefix("servers ")]
        np.testing.assert_array_equal(found, second[name])
        np.testing.assert_allclose(found, expected, rtol=0, atol=NEAR if name in alone else NEAR_ON_SERVERS)


def bind_module(**options):
    data, label = on_machines.list_batches(0, 1)[0]
    module = on_machines.split(on_machines.build(), **options)
    module.bind([("data", data.shape)], [("label", label.shape)])
    module.init_params(mx.init.One())
    return module


class Server:
    type, num_workers, rank = "dist_sync", 1, 0

    def __init__(self):
        self.pulled = []

    def broadcast(self, key, value, out):
        """Answer with zeros for parameters, and with the same number for plans."""
        if isinstance(out, list):
            self.pulled += out
            for array in out:
                write_slowly(array)


def test_training_waits_for_the_values_of_the_first_machine():
    """A gradient uses the key of its parameter's shard. If it arrived first, it would be pulled as the values."""
    server = Server()
    bind_module().init_optimizer(server, "sgd")
    assert server.pulled
    assert not any(peek(array).any() for array in server.pulled)


class EqualMachines(Server):
    """Two machines that push equal gradients."""

    num_workers = 2

    def __init__(self):
        super().__init__()
        self.shapes, self.sums = {}, {}

    def broadcast(self, key, value, out):
        super().broadcast(key, value, out)
        self.shapes[key] = value.shape

    def push(self, key, value, priority):
        assert value.shape == self.shapes[key]
        self.sums[key] = 2 * value

    def pull(self, key, out, priority):
        for array in out:
            self.sums[key].copyto(array)


@pytest.mark.parametrize("dimension", [1, None])
def test_gradients_are_summed_in_the_split_of_the_first_batch(dimension):
    """A batch of another size may split a parameter differently, with equal or unequal numbers of shards."""
    first, later = bind_module(hints={"a_weight": 0}), bind_module(hints={"a_weight": dimension})
    cluster = Cluster(EqualMachines())
    cluster.share(first.executor, ["a_weight"])
    gradient = later.executor.gradient("a_weight")
    assert not gradient.matches(first.executor.gradient("a_weight"))
    values = on_machines.draw(*gradient.shape, seed=1).astype(gradient.dtype)
    gradient.scatter(values)
    cluster.sum_gradients(later.executor, ["a_weight"])
    np.testing.assert_array_equal(gradient.gather().asnumpy(), 2 * values)
