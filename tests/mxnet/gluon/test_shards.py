import gc
import weakref

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu
from tests.mxnet.gluon.blocks import LOSS, build, draw, list_parameters, train
from tests.mxnet.slow_writes import peek, write_slowly
from tests.shared.optimizer_cases import CASES
from tofu.errors import InfeasibleError
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor

# The plan has to split these weights.
HINTS = {"a_weight": 0, "b_weight": 1}


def build_split(bias=True):
    net = build(nn.Dense(8, use_bias=bias, prefix="a_"), nn.Dense(4, use_bias=bias, prefix="b_"))
    return tofu.gluon.partition(net, 2, hints=HINTS)


# SGLD draws whole arrays of random numbers, and LBSGD multiplies whole weights for their norms.
GATHERS = ("lbsgd", "sgld")


def run(net, case):
    mx.random.seed(7)
    parameters = {name: value() if callable(value) else value for name, value in case.parameters.items()}
    trainer = gluon.Trainer(net.collect_params(), case.optimizer, parameters)
    train(net, trainer, 4)
    return trainer


@pytest.mark.parametrize("case", CASES[::2], ids=str)  # test_checkpoints.py has all
@pytest.mark.usefixtures("double_history")
def test_a_trainer_updates_shards_by_any_optimizer(case, monkeypatch):
    plain = build(nn.Dense(8, use_bias=case.bias, prefix="a_"), nn.Dense(4, use_bias=case.bias, prefix="b_"))
    plain(draw(6, 5))
    run(plain, case)
    net = build_split(case.bias)
    net(draw(6, 5))
    with autograd.record():
        net(draw(6, 5))  # moves the parameters to the workers
    gathered, gather = [], ShardedTensor.gather
    with monkeypatch.context() as patch:
        patch.setattr(ShardedTensor, "gather", lambda t, out=None: gathered.append(t.name) or gather(t, out))
        trainer = run(net, case)
    if case.optimizer not in GATHERS:
        assert not {"a_weight", "b_weight"}.intersection(gathered)
    for own, one_device in zip(list_parameters(net), list_parameters(plain), strict=True):
        scale = max(1, np.abs(one_device.asnumpy()).max())
        assert np.abs(own.asnumpy() - one_device.asnumpy()).max() <= max(case.tolerance, 1e-12) * scale
    assert trainer.optimizer.num_update == (0 if case.optimizer == "test" else 4)  # once a step, not for each worker


def test_parameters_states_and_gradients_are_sharded_by_the_plan():
    net = build_split()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    train(net, trainer, 1)
    weight, gradient = net[0].weight.data(), net[0].weight.grad()
    assert [array.shape for array in weight.tensor.arrays] == [(4, 5), (4, 5)]
    assert [array.context for array in weight.tensor.arrays] == [mx.cpu(0), mx.cpu(1)]
    assert [array.shape for array in gradient.tensor.arrays] == [(4, 5), (4, 5)]
    index = trainer._param2idx["a_weight"]
    for state in trainer._updaters[0].states[index]:
        assert isinstance(state, ShardedArray)
        assert state.tensor.regions == weight.tensor.regions


def test_inference_first_does_not_decide_the_plan_of_training():
    net = build_split()
    net(draw(1, 5))
    assert net.plan.inputs["data"] == (1, 5)
    train(net, gluon.Trainer(net.collect_params(), "sgd"), 1)
    assert net.plan.inputs["data"] == (6, 5)
    plan = net.plan
    assert plan.optimality == "optimal"
    net(draw(8, 5))
    with autograd.record():
        value = net(draw(4, 5)).sum()
    value.backward()
    assert net.plan == plan


def test_inference_with_other_batch_sizes_keeps_the_splits_of_training(caplog):
    net = build_split()
    train(net, gluon.Trainer(net.collect_params(), "sgd"), 1)
    weight, caplog.records[:] = net[0].weight.data().tensor, []
    for batch in (10, 7):
        assert net(draw(batch, 5)).shape == (batch, 4)
        assert net[0].weight.data().tensor is weight
    assert not caplog.records


def test_one_sample_may_be_replicated_in_inference(caplog):
    net, plain = (build(nn.Dense(2, in_units=2, prefix="a_")) for _ in range(2))
    net = tofu.gluon.partition(net, 8)
    data = draw(1, 2)
    assert np.abs(net(data).asnumpy() - plain(data).asnumpy()).max() < 1e-12
    assert "on_infeasible='replicate'" in caplog.text
    with autograd.record(), pytest.raises(InfeasibleError):
        net(data)
    assert net(draw(16, 2)).shape == (16, 2)


def test_executors_are_reused_and_the_oldest_dropped():
    net = build_split()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    executors = []
    for rows in (6, 6, 2, 4, 6, 8, 10, 12):
        train(net, trainer, 1, (rows, 5))
        executors.append(weakref.ref(net._cached_op._executors[-1].executor))
    gc.collect()
    assert executors[0] == executors[1] == executors[4]
    alive = {reference() for reference in executors} - {None}
    assert len(alive) == 4
    net = build_split()  # calls that are never differentiated hold none
    for _ in range(5):
        with autograd.record():
            output = net(draw(6, 5))
        output.wait_to_read()
    del output
    assert len(net._cached_op._executors) <= 2


def test_a_report_and_the_symbol(tmp_path):
    net = build_split()
    train(net, gluon.Trainer(net.collect_params(), "sgd"), 1)
    net.save_report(tmp_path / "plan.html")
    assert "a_weight" in (tmp_path / "plan.html").read_text()
    assert net.partitioned_symbol.list_outputs() == ["b_fwd_output"]
    assert "b_fwd, split in every round along" in " ".join(net.why("b_fwd").split())


def test_gradients_wait_for_pending_values():
    """The first step of a Trainer on several machines pulls values and sends gradients by the same key.

    In plain MXNet, such a pull sometimes gets the sum of gradients that arrived first.
    """
    net = build_split()
    with autograd.record():
        loss = LOSS(net(draw(6, 5)), draw(6, 4))
    loss.backward()
    parameter = net.collect_params()["a_weight"]
    values = parameter.data()
    before = values.asnumpy()
    write_slowly(values)
    parameter.grad().handle  # noqa: B018  what a kvstore asks for
    assert before.any()
    assert not peek(values).any()
