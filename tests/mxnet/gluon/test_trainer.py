import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon.blocks import build, draw, list_parameters, train
from tests.mxnet.slow_writes import peek, write_slowly
from tests.shared.optimizer_cases import CASES
from tofu.errors import PlanError, UnsupportedError
from tofu.mxnet.gluon.trainer import is_elementwise
from tofu.mxnet.runtime.arrays.shards import ShardedTensor

# On three workers one weight is split unevenly, and the biases are replicated.
HINTS = {"a_weight": 0, "b_weight": 1, "a_bias": None, "b_bias": None}
STEPS, MACHINES = 3, 2


class Servers(mx.kvstore.KVStoreBase):
    """A kvstore of machines with equal gradients that records what it receives."""

    type, num_workers, rank = "dist_sync", MACHINES, 0

    def __init__(self, updates=False, kind="dist_sync"):
        self.updates, self.type = updates, kind
        self.values, self.updater, self.pushed, self.is_another_plan = {}, None, [], False

    def is_capable(self, capability):
        return self.updates

    def set_optimizer(self, optimizer):
        self.updater = mx.optimizer.get_updater(optimizer)

    def broadcast(self, key, value, out, priority=0):
        assert key not in self.values
        self.values[key] = value.copy() + self.is_another_plan
        self.hand_out(key, out)

    def pushpull(self, key, value, out=None, priority=0):
        (value,) = value if isinstance(value, list) else [value]
        assert self.values[key].shape == value.shape
        self.pushed.append((key, value.size))
        total = value.copyto(mx.cpu(0)) * MACHINES
        if self.updater is None:
            self.values[key] = total
        else:
            self.updater(key, total, self.values[key])
        self.hand_out(key, value if out is None else out)

    def hand_out(self, key, out):
        for array in out if isinstance(out, list) else [out]:
            self.values[key].copyto(array)


def build_plain():
    return build(nn.Dense(8, prefix="a_"), nn.Dense(4, prefix="b_"))


def build_split(workers=3):
    return tofu.gluon.partition(build_plain(), workers, hints=HINTS)


def train_alone(optimizer, **parameters):
    """Train one device with the doubled batch, which doubles the gradients."""
    net = build_plain()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"rescale_grad": MACHINES, **parameters})
    net(draw(6, 5))
    train(net, trainer, STEPS)
    return list_parameters(net)


def compare(net, expected, tolerance=1e-12):
    for own, alone in zip(list_parameters(net), expected, strict=True):
        np.testing.assert_allclose(own.asnumpy(), alone.asnumpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("updates", [False, True], ids=["machines update", "servers update"])
def test_each_distinct_shard_is_sent_once_and_nothing_gathered(updates, monkeypatch):
    net, servers = build_split(), Servers(updates)
    parameters = {"learning_rate": 0.1, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", parameters, kvstore=servers)
    gathered, gather = [], ShardedTensor.gather
    with autograd.record():
        net(draw(6, 5))  # moves the parameters to the workers
    with monkeypatch.context() as patch:
        patch.setattr(ShardedTensor, "gather", lambda t, out=None: gathered.append(t.name) or gather(t, out))
        train(net, trainer, STEPS)
    assert not {"a_weight", "b_weight", "a_bias", "b_bias"}.intersection(gathered)
    keys = [key for key, _ in servers.pushed]
    assert len(keys) == STEPS * len(set(keys)) == STEPS * (3 + 3 + 1 + 1)
    sizes = [array.size for array in list_parameters(net)]
    assert sum(size for _, size in servers.pushed) == STEPS * sum(sizes)
    assert max(size for _, size in servers.pushed) < max(sizes)
    compare(net, train_alone("sgd", **parameters))


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [
        ("lars", "dist_sync"),
        ("nadam", "dist_sync"),
        (mx.optimizer.SGD(param_idx2name={0: "a_bias"}), "dist_sync"),
        ("sgd", "local"),
    ],
    ids=["lars", "nadam", "names of weights", "local"],
)
def test_servers_update_whole_weights_if_shards_would_be_wrong(optimizer, kind):
    """LARS takes norms, Nadam counts its calls, and the third optimizer has options by names of whole weights."""
    net, servers = build_split(), Servers(updates=True, kind=kind)
    train(net, gluon.Trainer(net.collect_params(), optimizer, kvstore=servers), STEPS)
    assert sorted({key for key, _ in servers.pushed}) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "case", [case for case in CASES if is_elementwise(mx.optimizer.create(case.optimizer))], ids=str
)
def test_elementwise_optimizers_update_shards_as_whole_weights(case):
    """Compare a weight of two rows with its columns as separate weights."""

    def update(parts):
        parameters = {name: value() if callable(value) else value for name, value in case.parameters.items()}
        updater = mx.optimizer.get_updater(mx.optimizer.create(case.optimizer, **parameters))
        weights = [weight.copy() for weight in parts(draw(2, 3).astype("float32"))]
        for step in range(STEPS):
            gradients = parts(draw(2, 3, seed=1 + step).astype("float32"))
            for index, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
                updater(index, gradient, weight)
        return np.concatenate([weight.asnumpy() for weight in weights], axis=1)

    whole = update(lambda array: [array])
    np.testing.assert_array_equal(update(lambda array: [array[:, i : i + 1] for i in range(3)]), whole)
    assert np.abs(whole - draw(2, 3).asnumpy()).max() > 1e-4


def move_to_host(array):
    whole = tuple((0, extent) for extent in array.shape)
    array.move(ShardedTensor(array.name, array.shape, array.layout.dtype, [whole], [mx.cpu(0)]))


@pytest.mark.parametrize("updates", [False, True], ids=["machines update", "servers update"])
def test_keys_stay_the_same_when_parameters_move(updates):
    net, servers = build_split(), Servers(updates)
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=servers)
    train(net, trainer, STEPS, each=lambda: [move_to_host(array) for array in list_parameters(net) if servers.pushed])
    assert len(servers.pushed) == STEPS * len({key for key, _ in servers.pushed}) == STEPS * 8
    compare(net, train_alone("adam"))


@pytest.mark.parametrize("is_partitioned_first", [True, False])
def test_values_shared_before_planning_are_sent_as_shards_later(is_partitioned_first):
    servers, net = Servers(), build_split() if is_partitioned_first else build_plain()
    net(draw(6, 5))
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=servers)
    if is_partitioned_first:
        for array in list_parameters(net):
            move_to_host(array)
        trainer._init_kvstore()
        trainer._init_params()
    else:
        tofu.gluon.partition(net, 3, hints=HINTS)
    train(net, trainer, STEPS)
    assert len(servers.pushed) == STEPS * 8
    compare(net, train_alone("adam"))


def test_gradients_wait_for_the_values_of_the_first_machine():
    """A gradient uses the key of its parameter's shard. If it arrived first, it would be pulled as the values."""

    class SlowServers(Servers):
        def hand_out(self, key, out):
            if isinstance(out, list) and not received:
                received.append(out[0])
                write_slowly(out[0])

    net, received = build_split(), []
    with autograd.record():
        net(draw(6, 5))
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=SlowServers())
    trainer._init_kvstore()
    trainer._init_params()
    assert not peek(received[0]).any()


def test_parameters_of_other_blocks_are_sent_whole():
    net, servers = build_split(), Servers()
    other = build(nn.Dense(4, in_units=4, prefix="other_"))
    both = {**dict(net.collect_params()), **dict(other.collect_params())}
    trainer = gluon.Trainer(both, "sgd", {"learning_rate": 0.1}, kvstore=servers)
    train(lambda data: other(net(data)), trainer, 1)
    assert [pair for pair in servers.pushed if pair[0] < 10] == [(4, 4), (5, 16)]
    assert len(servers.pushed) == 8 + 2


def test_machines_with_other_plans_are_refused():
    net, servers = build_split(), Servers()
    servers.rank, servers.is_another_plan = 1, True
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=servers)
    with pytest.raises(PlanError, match="Machine 1 has another plan than machine 0"):
        train(net, trainer, 1)


def test_a_cast_between_steps_is_refused():
    net, servers = build_split(), Servers()
    trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=servers)
    train(net, trainer, 1)
    net.cast("float32")
    with pytest.raises(
        UnsupportedError, match="a_bias has been cast to float32 since machines began to exchange it in float64"
    ):
        train(net, trainer, 1, dtype="float32")


def test_trainers_of_other_blocks_stay_unchanged():
    assert type(gluon.Trainer(build_plain().collect_params(), "sgd")) is gluon.Trainer
    trainer = gluon.Trainer(build_split().collect_params(), "sgd")
    assert isinstance(trainer, gluon.Trainer)
    assert type(trainer).__name__ == "ShardedTrainer"
