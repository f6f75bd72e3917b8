"""benchmarks.step_time: the workers' graphs taken apart still compute everything."""

import json

import mxnet as mx
import numpy as np

import tofu
from benchmarks.step_time import take_apart
from tests.models.paper import transformer
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor

FETCH = "_tofu_multi_fetch"


def list_computed(symbol):
    """(operator's name, output) of all that somebody reads, fetches left out; and what fetches read."""
    graph = json.loads(symbol.tojson())
    nodes = graph["nodes"]
    fetched = [entry for node in nodes if node["op"] == FETCH for entry in node["inputs"]]
    entries = graph["heads"] + [entry for node in nodes for entry in node["inputs"]]
    named = {(nodes[node]["name"], output, nodes[node]["op"]) for node, output, *_ in entries}
    return {(name, output) for name, output, op in named if op not in ("null", FETCH)}, fetched


def test_copies_apart_compute_what_the_workers_do():
    model = transformer(1, 16, 2, 4, length=8, vocabulary=12)
    contexts = [mx.cpu(worker) for worker in range(4)]
    symbol = tofu.partition(model.symbol, contexts=contexts)
    partition = tofu.bind(symbol, **model.shapes).partition
    apart = take_apart(partition)
    whole, fetched = list_computed(partition.training.symbol)
    copies, fetched_apart = list_computed(apart.training.symbol)
    assert copies == whole
    assert fetched
    assert not fetched_apart
    executor = ShardedExecutor(apart, contexts)
    for variable in executor.variables.values():
        variable.scatter(np.full(variable.shape, 0.5, variable.dtype))
    executor.forward(is_train=True)
    executor.backward()
    mx.nd.waitall()
