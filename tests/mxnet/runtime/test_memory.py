"""The memory that a plan states is the memory that MXNet allocates on each worker, byte for byte."""

import mxnet as mx
import pytest

import tofu
from tests.models.paper import PaperModel, rnn, transformer, wresnet
from tests.shared import digits
from tests.shared.allocation import allocated_bytes
from tofu import _mxnet
from tofu.mxnet.frontend.read_symbol import find_labels, read_graph

BATCH = 32

MODELS = {
    "digits": PaperModel("digits", digits.residual_network(filters=16), digits.input_shapes(BATCH)),
    "wresnet": wresnet(50, 1, 8, image=32, base=8, classes=16, blocks=(1, 1, 1, 1)),
    "rnn": rnn(2, 32, 16, time_steps=10, features=16, classes=16),  # more than 8 gradients are added in place
    "transformer": transformer(2, 32, 4, 4, length=8, vocabulary=64),
}


@pytest.mark.parametrize(("name", "workers"), [("digits", 8), ("wresnet", 2), ("rnn", 6), ("transformer", 6)])
def test_planned_bytes_are_allocated(name, workers):
    model = MODELS[name]
    executor = tofu.bind(model.symbol, [mx.cpu(i) for i in range(workers)], **model.shapes)
    shards = [array for variable in executor.variables.values() for array in variable.arrays]
    planned = executor.partition.plan.worker_bytes
    assert allocated_bytes(executor._training_graph.bound, workers, shards) == list(planned)
    report = tofu.memory_report(model.symbol, workers, optimizer=None, **model.shapes)
    assert tuple(worker.planned_bytes for worker in report.workers) == planned


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [("transformer", "sgd"), ("transformer", "ftml"), ("wresnet", "adam")],
)
def test_reported_optimizer_states_are_those_of_a_module(name, optimizer):
    model = MODELS[name]
    parameters = {"momentum": 0.9} if optimizer == "sgd" else {}
    module = tofu.mod.Module(model.symbol, context=[mx.cpu(i) for i in range(4)])
    data = model.shapes["data"]
    label = model.shapes.get("softmax_label", data[:1])
    module.bind(data_shapes=[("data", data)], label_shapes=[("softmax_label", label)])
    module.init_params()
    module.init_optimizer(optimizer=optimizer, optimizer_params=parameters)
    module.forward(mx.io.DataBatch([mx.nd.zeros(data)], [mx.nd.zeros(label)]))
    module.backward()
    module.update()
    held = [0] * 4
    for state in module._shard_optimizer.updater.states.values():
        for array in state if isinstance(state, tuple) else (state,):
            for worker, shard in enumerate(array.tensor.arrays):
                held[worker] += shard.size * shard.dtype().itemsize
    report = tofu.memory_report(model.symbol, 4, optimizer=optimizer, optimizer_params=parameters, **model.shapes)
    assert [worker.optimizer_bytes for worker in report.workers] == held
    assert held[0] > 0


def test_planned_bytes_are_allocated_on_one_device(monkeypatch):
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "NONE")  # oneDNN's fusion refuses training graphs
    symbol = digits.residual_network(filters=16)
    shapes = digits.input_shapes(BATCH)
    held = set(shapes) | find_labels(symbol)
    training = read_graph(symbol, shapes, {}, [n for n in symbol.list_arguments() if n not in held]).native
    types = dict.fromkeys(training.list_arguments(), 0)
    planned = _mxnet.PlannedGraph(training.handle.value, shapes, types).memory()[""]
    bound = training.simple_bind(mx.cpu(0), grad_req="null", **shapes)
    assert allocated_bytes(bound, 1) == [planned["arguments"] + planned["auxiliary"] + planned["pool"]]
