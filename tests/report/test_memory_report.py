import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.paper import rnn, transformer
from tests.models.plain import mlp, plain_cnn, residual_cnn
from tofu import _mxnet
from tofu.graph import TensorKind
from tofu.mxnet.backend.buffers import worker_variables
from tofu.mxnet.memory.account import count_rounding, round_up
from tofu.mxnet.memory.plot import plot_memory
from tofu.program import worker_group
from tofu.search.geometry import find_shards

WORKERS = 4
MODELS = {
    "cnn": residual_cnn(),
    "rnn": rnn(2, 16, 8, time_steps=9, features=8, classes=8),
    "transformer": transformer(1, 16, 2, 4, length=8, vocabulary=32),
}


def plan(name):
    model = MODELS[name]
    symbol = tofu.partition(model.symbol, WORKERS, **model.shapes)
    partition = symbol.planned()
    variables = worker_variables(partition.choices, partition.training)
    return symbol, _mxnet.PlannedGraph(partition.training.symbol.handle.value, *variables).entries()


@pytest.mark.parametrize("name", MODELS)
def test_categories_add_up(name):
    model = MODELS[name]
    symbol = tofu.partition(model.symbol, WORKERS, **model.shapes)
    graph = symbol.planned().graph
    report = tofu.memory_report(symbol)
    for device in (report.one_device, *report.workers):
        assert sum(device.at_peak.values()) == device.planned_bytes
        assert device.at_peak["idle"] >= 0
        assert max(device.uses.sum(axis=0)) <= device.pool_bytes
        assert device.uses.min() >= 0
        assert device.optimizer_bytes == device.parameters_bytes  # one momentum each
        assert device.uses[0, -1] == device.gradients_bytes
    learned = sum(graph.tensors[t].size_bytes for t in graph.updated)
    assert report.one_device.parameters_bytes == report.one_device.gradients_bytes == learned
    assert report.one_device.at_peak["fetch buffers"] == 0
    assert max(device.uses[2].max() for device in report.workers) > 0
    held = [tofu.memory_report(symbol, optimizer=None).workers[w].planned_bytes for w in range(WORKERS)]
    assert tuple(held) == symbol.plan.worker_bytes


def test_the_gpu_pool_rounds_arrays_up(monkeypatch):
    assert [round_up(count) for count in (0, 1, 4097, (2 << 20) + 1)] == [0, 4096, 8192, 4 << 20]
    monkeypatch.setenv("MXNET_GPU_MEM_POOL_PAGE_SIZE", "32")
    monkeypatch.setenv("MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE", "1000")
    assert [round_up(count) for count in (33, 960, 993)] == [64, 960, 2000]


@pytest.mark.parametrize("name", MODELS)
def test_rounding_is_counted_for_every_array(name):
    symbol, table = plan(name)
    partition, report = symbol.planned(), tofu.memory_report(symbol)
    for worker, device in enumerate(report.workers):
        group = table["groups"].index(worker_group(worker))
        rows = (table["group"] == group) & (table["buffer"] >= 0) & (table["kind"] >= 2)
        buffers = {}
        for buffer, count in zip(table["buffer"][rows].tolist(), table["bytes"][rows].tolist(), strict=True):
            buffers[buffer] = max(buffers.get(buffer, 0), count)
        assert sum(buffers.values()) == device.pool_bytes
        held = {
            t: int(np.prod(np.diff(find_shards(partition.problem, t, partition.choices.layout(t))[worker])))
            * tensor.item_bytes
            for t, tensor in enumerate(partition.graph.tensors)
            if tensor.kind is not TensorKind.INTERMEDIATE
        }
        momenta = [held[t] for t in partition.graph.updated]
        arrays = [*buffers.values(), *held.values(), *momenta]
        assert sum(arrays) == device.planned_bytes
        assert device.rounding_bytes == sum(round_up(count) for count in arrays) - sum(arrays) > 0
        assert device.needed_bytes == device.planned_bytes + device.workspace_bytes + device.rounding_bytes
    without = tofu.memory_report(symbol, optimizer=None).workers
    assert count_rounding(partition) == tuple(worker.rounding_bytes for worker in without)


def test_workspace_is_the_largest_unfolded_image():
    model = plain_cnn(batch=4)
    report = tofu.memory_report(model.symbol, 1, **model.shapes)
    # conv0: 3 x 3 windows over 5 channels at 13 x 13; conv1: over 12 channels at 7 x 7; conv2: over 16 at 3 x 3, all of 4 images.
    assert report.one_device.workspace_bytes == 4 * max(5 * 9 * 4 * 13 * 13, 12 * 9 * 4 * 7 * 7, 16 * 9 * 4 * 3 * 3)
    assert report.workers == ()
    perceptron = mlp()
    assert tofu.memory_report(perceptron.symbol, 1, **perceptron.shapes).one_device.workspace_bytes == 0


def test_tables_and_plots(tmp_path):
    model = MODELS["cnn"]
    report = tofu.memory_report(model.symbol, 2, optimizer="adam", **model.shapes)
    text = str(report)
    for part in ("one device", "workers 0, 1", "fetch buffers", "planned", "the peak is at", report.largest.peak_node):
        assert part in text
    plot_memory(report, tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_optimizer_states_of_another_shape():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, no_bias=True, name="fc")
    options = {"optimizer": "groupadagrad", "optimizer_params": {"learning_rate": 0.1}}
    report = tofu.memory_report(net, 2, options={"hints": {"fc_weight": 0}}, **options, data=(4, 6))
    assert [device.optimizer_bytes for device in (report.one_device, *report.workers)] == [4 * 8, 4 * 4, 4 * 4]
    report = tofu.memory_report(net, 2, options={"hints": {"fc_weight": 1}}, **options, data=(4, 6))
    assert [worker.optimizer_bytes for worker in report.workers] == [4 * 8, 4 * 8]
