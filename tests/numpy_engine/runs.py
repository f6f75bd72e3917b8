"""Steps planned by the pipeline and run by the NumPy backend, and the same steps computed whole."""

from functools import cache

import numpy as np

from tests.numpy_engine.backend import NUMPY
from tests.numpy_engine.operators import DESCRIPTIONS
from tests.numpy_engine.steps import STEPS
from tofu.engine import Source
from tofu.graph import TensorKind
from tofu.pipeline import Observer, analyse_step, make_partition
from tofu.planning.settings import Settings
from tofu.tdl import interpret


def analyse_graph(graph, workers, engine=NUMPY, **asked):
    return analyse_step(Source(graph), engine, Settings(workers, cache=False, **asked), Observer())


def partition_graph(graph, workers, engine=NUMPY, **asked):
    return make_partition(analyse_graph(graph, workers, engine, **asked), Observer())


@cache
def partition(name, workers, **asked):
    return partition_graph(STEPS[name](), workers, **asked)


@cache
def draw_values(name):
    """Return random values of all variables."""
    graph, rng = STEPS[name](), np.random.default_rng(len(name))
    variables = [tensor for tensor in graph.tensors if tensor.kind is not TensorKind.INTERMEDIATE]
    return {tensor.name: rng.uniform(-0.5, 0.5, tensor.shape) for tensor in variables}


def compute_whole(graph, values):
    known = dict(values)
    for operator in graph.operators:
        inputs = [known[graph.tensors[t].name] for t in operator.inputs]
        outputs = [graph.tensors[t] for t in operator.outputs]
        arrays = interpret(DESCRIPTIONS[operator.op], operator.attributes, inputs, [tensor.shape for tensor in outputs])
        known.update({tensor.name: array for tensor, array in zip(outputs, arrays, strict=True)})
    return known


@cache
def compute_named(name):
    return compute_whole(STEPS[name](), draw_values(name))


def check_run(made, name):
    execution = made.training
    execution.read_bytes = 0
    results = execution.run_whole(draw_values(name))
    assert_results(execution, results, compute_named(name))
    assert execution.read_bytes == made.plan.communication_bytes == execution.program.remote_bytes


def assert_results(execution, results, expected):
    assert results
    for output, found in zip(execution.program.outputs, results, strict=True):
        tensor = execution.graph.tensors[output.tensor].name
        np.testing.assert_allclose(found, expected[tensor], rtol=1e-9, atol=1e-12, err_msg=tensor)
