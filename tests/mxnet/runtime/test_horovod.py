"""Horovod between machines averages each distinct shard once. `.ci/horovod` builds Horovod and trains on two machines."""

import os
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.mxnet.runtime import on_machines
from tests.shared.module_runs import assert_all_close
from tofu.errors import PlanError, UnsupportedError

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(find_spec("horovod") is None, reason=".ci/horovod builds Horovod")
def test_two_machines_train_as_one_with_the_joint_batch(tmp_path):
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    script = Path(on_machines.__file__).with_name("on_horovod.py")
    launch = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "--gloo"]
    subprocess.run([*launch, sys.executable, script, tmp_path / "machine.npz"], env=given, check=True, timeout=300)
    subprocess.run([sys.executable, on_machines.__file__, tmp_path / "alone.npz"], env=given, check=True, timeout=300)
    first, second, alone = (dict(np.load(tmp_path / name)) for name in ("machine0.npz", "machine1.npz", "alone.npz"))
    assert {name.removeprefix("unmodified ") for name in first} == alone.keys()
    assert any(name.startswith("unmodified ") for name in first)
    for name, found in first.items():
        np.testing.assert_array_equal(found, second[name])
        np.testing.assert_allclose(found, alone[name.removeprefix("unmodified ")], rtol=0, atol=1e-12)


class Machines:
    """Horovod's process set of two machines with equal gradients."""

    def included(self):
        return True

    def size(self):
        return 2


@pytest.fixture
def horovod(monkeypatch):
    module = types.ModuleType("horovod.mxnet")

    class DistributedOptimizer(mx.optimizer.Optimizer):
        def __init__(self, optimizer):
            self._optimizer, self._process_set, self._average_in_framework = optimizer, Machines(), True
            optimizer.rescale_grad /= 2
            self.reduced = []

        def _do_allreduce(self, indices, gradients):
            self.reduced += zip(indices, gradients, strict=True)
            for gradient in gradients:
                gradient *= 2

        def create_state_multi_precision(self, index, weight):
            return self._optimizer.create_state_multi_precision(index, weight)

        def __getattr__(self, name):
            return getattr(self._optimizer, name)

    class DistributedTrainer(mx.gluon.Trainer):
        def __init__(self, params, optimizer, optimizer_params):
            super().__init__(params, optimizer, optimizer_params, kvstore=None)
            self._process_set, self.reduced = Machines(), []
            self._scale /= 2

        def _allreduce_grads(self):
            for index, parameter in enumerate(self._params):
                if parameter.grad_req != "null":
                    (gradient,) = parameter.list_grad()
                    self.reduced.append((index, gradient))
                    gradient *= 2

    for kind in (DistributedOptimizer, DistributedTrainer):
        kind.__module__ = "horovod.mxnet"
        setattr(module, kind.__name__, kind)
    module.rank = lambda: 0
    module.allgather = lambda own, name, process_set: mx.nd.concat(own, own, dim=0)
    monkeypatch.setitem(sys.modules, "horovod.mxnet", module)
    return module


ROUTES = {
    "module": lambda: on_machines.split(on_machines.build()),
    "partition": lambda: mx.mod.Module(tofu.partition(on_machines.build(), 2), label_names=["label"]),
}


def run(make_module, optimizer):
    batches = on_machines.list_batches(0, 1)
    return on_machines.train_module(make_module(), batches, 1, lambda module: None, None, optimizer)


def make_sgd():
    return mx.optimizer.create("sgd", rescale_grad=1 / on_machines.ROWS, **on_machines.RATES)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.filterwarnings("ignore:Optimizer created manually")  # MXNet's Module compares with one machine's batch
def test_each_distinct_shard_is_averaged_once(horovod, route):
    optimizer = horovod.DistributedOptimizer(make_sgd())
    expected = run(ROUTES[route], make_sgd())
    assert_all_close(run(ROUTES[route], optimizer), expected, rtol=0)
    check_elements(optimizer.reduced, expected)


def check_elements(reduced, parameters):
    names = [name for name, _ in reduced]
    assert len(names) == len(set(names)) * on_machines.STEPS
    elements = sum(gradient.size for _, gradient in reduced)
    assert elements == on_machines.STEPS * sum(value.size for value in parameters.values())


def train_block(make_trainer):
    return on_machines.train_block(on_machines.list_batches(0, 1), 1, make_trainer, on_machines.ROWS)


def test_a_trainer_averages_each_distinct_shard_once(horovod):
    trainers = []

    def make_plain(parameters, kind=mx.gluon.Trainer):
        trainers.append(kind(parameters, "sgd", on_machines.RATES))
        parameters["d_bias"].grad_req = "null"
        return trainers[-1]

    def make_trainer(parameters):
        return make_plain(parameters, horovod.DistributedTrainer)

    expected = train_block(make_plain)
    assert_all_close(train_block(make_trainer), expected, rtol=0)
    check_elements(trainers[-1].reduced, {name: value for name, value in expected.items() if name != "d_bias"})
    assert len({name for name, _ in trainers[-1].reduced}) > len(expected) - 1


def test_machines_with_different_plans_are_refused(horovod):
    horovod.allgather = lambda own, name, process_set: mx.nd.concat(own, own + 1, dim=0)
    with pytest.raises(PlanError, match="machines have different plans"):
        run(ROUTES["module"], horovod.DistributedOptimizer(make_sgd()))
    with pytest.raises(PlanError, match="machines have different plans"):
        train_block(lambda parameters: horovod.DistributedTrainer(parameters, "sgd", on_machines.RATES))


def test_a_kvstore_and_horovod_together_are_refused(horovod):
    class RendezvousServer:
        type, num_workers, rank = "dist_sync", 2, 0

    data, label = on_machines.list_batches(0, 1)[0]
    module = on_machines.split(on_machines.build())
    module.bind([("data", data.shape)], [("label", label.shape)])
    module.init_params()
    with pytest.raises(UnsupportedError, match="Both kvstore='dist_sync' and Horovod"):
        module.init_optimizer(RendezvousServer(), horovod.DistributedOptimizer(make_sgd()))
