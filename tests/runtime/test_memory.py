"""The memory that a plan announces is the memory that MXNet allocates, byte for byte, on every worker."""

import mxnet as mx
import pytest

import tofu
from benchmarks import digits
from tofu import _mxnet
from tofu.graph.mxnet import find_labels, read_graph

BATCH = 32


def allocated_bytes(bound, extra, workers):
    """Bytes of the distinct pieces of memory behind all arrays of a bound graph, by device number."""
    storages = {}

    def note(handle):
        info = _mxnet.storage_info(handle)
        storages[info["device_id"], info["address"]] = info["bytes"]

    bound.set_monitor_callback(lambda _, array: note(getattr(array, "value", array)))
    bound.forward(is_train=True)
    mx.nd.waitall()
    for array in [*bound.arg_arrays, *bound.aux_arrays, *bound.outputs, *extra]:
        note(array.handle.value)
    totals = [0] * workers
    for (device, _), size in storages.items():
        totals[device] += size
    return tuple(totals)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_planned_is_allocated(workers):
    symbol = digits.residual_network(filters=16)
    executor = tofu.bind(symbol, [mx.cpu(i) for i in range(workers)], **digits.input_shapes(BATCH))
    shards = [array for variable in executor.variables.values() for array in variable.arrays]
    assert allocated_bytes(executor._training, shards, workers) == executor.partition.plan.worker_bytes


def test_planned_is_allocated_on_one_device(monkeypatch):
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "NONE")  # oneDNN's fusion refuses a graph that holds its own gradients
    symbol = digits.residual_network(filters=16)
    shapes = digits.input_shapes(BATCH)
    held = set(shapes) | find_labels(symbol)
    training = read_graph(symbol, shapes, {}, [n for n in symbol.list_arguments() if n not in held]).symbol
    planned = _mxnet.plan_memory(training.handle.value, shapes, dict.fromkeys(training.list_arguments(), 0))[""]
    bound = training.simple_bind(mx.cpu(0), grad_req="null", **shapes)
    assert allocated_bytes(bound, [], 1) == (planned["arguments"] + planned["auxiliary"] + planned["pool"],)
