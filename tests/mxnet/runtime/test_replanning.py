"""Each batch size has its plan: searched and analysed once, then reused."""

import mxnet as mx
import pytest
from mxnet import autograd

import tofu
from tests.models.plain import mlp
from tests.mxnet.gluon.blocks import build_perceptron, draw
from tofu.mxnet.runtime.symbol import partitioned_symbol, replanning
from tofu.planning import selection


def batch_of(size):
    return mx.io.DataBatch([mx.nd.ones((size, 17))], [mx.nd.ones(size)])


def plan_of_samples(symbol, **shapes):
    """A plan that splits the batch; 2 samples do not fit it on 4 workers."""
    return tofu.partition(symbol, 4, hints={"data": 0}, **shapes).plan


def run_module(kind):
    model = mlp()
    plan = plan_of_samples(model.symbol, data=(12, 17))
    module = kind(tofu.partition(model.symbol, plan=plan, cache=False))
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params()

    def step(size):
        module.forward(batch_of(size), is_train=True)
        module.backward()
        return module.plan if kind is tofu.mod.Module else module._exec_group.execs[0].plan

    return step


def run_block():
    symbol = build_perceptron()(mx.sym.Variable("data"))
    net = tofu.gluon.partition(build_perceptron(), plan=plan_of_samples(symbol, data=(12, 5)), cache=False)

    def step(size):
        with autograd.record():
            value = net(draw(size, 5)).sum()
        value.backward()
        return net._cached_op._executors[-1].executor.partition.plan

    return step


@pytest.fixture
def counted(monkeypatch):
    calls = {"compile": 0, "search": 0}

    def count(name, call):
        def counting(*args, **kwargs):
            calls[name] += 1
            return call(*args, **kwargs)

        return counting

    monkeypatch.setattr(partitioned_symbol, "read_task", count("compile", partitioned_symbol.read_task))
    monkeypatch.setattr(selection, "_search", count("search", selection._search))
    return calls


@pytest.mark.parametrize(
    "make",
    [lambda: run_module(mx.mod.Module), lambda: run_module(tofu.mod.Module), run_block],
    ids=["mx.mod.Module", "tofu.mod.Module", "Gluon"],
)
def test_each_batch_size_is_planned_once(make, counted):
    step = make()
    ordinary = step(12)
    counted.update(compile=0, search=0)
    small = step(2)
    assert small.operators != ordinary.operators
    assert counted == {"compile": 2, "search": 1}
    for size, plan in ((12, ordinary), (2, small), (12, ordinary), (9, ordinary), (2, small)):
        assert step(size).operators == plan.operators
    assert counted == {"compile": 3, "search": 1}


def test_kept_partitions_are_limited():
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params()
    for size in range(4, 12):
        module.forward(batch_of(size), is_train=False)
    assert len(module._replanner._partitions) == replanning.MOST_PARTITIONS


def test_a_failed_bind_keeps_no_plan(monkeypatch):
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    with monkeypatch.context() as patch:
        patch.setattr(partitioned_symbol, "ShardedExecutor", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    assert module._replanner._partitions == {}
    module.bind([("data", (8, 17))], [("softmax_label", (8,))])
    assert module.plan.inputs["data"] == (8, 17)
    assert "given" not in module.plan.optimality
