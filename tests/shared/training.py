"""Training runs on one device and partitioned, which the equality tests compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mxnet as mx
import numpy as np

import tofu
from tests.models.plain import PlainModel
from tofu import _mxnet
from tofu.compare import RunNumbers, compare_numbers, relative_error
from tofu.graph import TensorKind
from tofu.mxnet.check.execution import count_remote_bytes
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.pipeline import Partition
from tofu.plan import Plan

Arrays = dict[str, np.ndarray]
LEARNING_RATE = 0.01


def all_shapes(model: PlainModel) -> dict[str, tuple[int, ...]]:
    arguments, _, _ = model.symbol.infer_shape(**model.shapes)
    return dict(zip(model.symbol.list_arguments(), arguments, strict=True))


def state_shapes(model: PlainModel) -> dict[str, tuple[int, ...]]:
    _, _, states = model.symbol.infer_shape(**model.shapes)
    return dict(zip(model.symbol.list_auxiliary_states(), states, strict=True))


def input_names(model: PlainModel) -> list[str]:
    return [name for name in model.symbol.list_arguments() if name in model.shapes or name.endswith("label")]


def random_values(model: PlainModel, dtype: str, seed: int = 0) -> Arrays:
    """Return values for all arguments and states.

    Labels and tokens are classes, weights are uniform with variance 1 / fan-in, scales and variances are around 1, all others uniform.
    """
    rng = np.random.RandomState(seed)
    values = {}
    for name, shape in (all_shapes(model) | state_shapes(model)).items():
        if name in model.given:
            values[name] = model.given[name].astype(dtype)
        elif name.endswith(("label", "tokens")):
            values[name] = rng.randint(0, model.classes, shape).astype(dtype)
        elif name.endswith(("gamma", "var")):
            values[name] = rng.uniform(0.5, 1.5, shape).astype(dtype)
        else:
            bound = np.sqrt(3 / np.prod(shape[1:])) if name.endswith("weight") else 0.5
            values[name] = rng.uniform(-bound, bound, shape).astype(dtype)
    return values


def run_single(
    model: PlainModel, values: Mapping[str, np.ndarray], dtype: str, steps: int = 1
) -> tuple[RunNumbers, Arrays]:
    inputs = input_names(model)
    shapes = all_shapes(model)
    requests = {name: "null" if name in inputs else "write" for name in shapes}
    executor = model.symbol.simple_bind(
        mx.cpu(0), grad_req=requests, type_dict=dict.fromkeys(inputs, dtype), **{name: shapes[name] for name in inputs}
    )
    for name, value in values.items():
        (executor.arg_dict if name in shapes else executor.aux_dict)[name][:] = value
    first = None
    for _ in range(steps):
        executor.forward(is_train=True)
        executor.backward()
        gradients = {name: executor.grad_dict[name] for name in shapes if name not in inputs}
        if first is None:
            outputs = {name: output.asnumpy() for name, output in executor.output_dict.items()}
            first = RunNumbers(outputs, {name: gradient.asnumpy() for name, gradient in gradients.items()})
        for name, gradient in gradients.items():
            mx.nd.sgd_update(executor.arg_dict[name], gradient, lr=LEARNING_RATE, out=executor.arg_dict[name])
    assert first is not None
    weights = {name: executor.arg_dict[name].asnumpy() for name in shapes if name not in inputs}
    weights |= {name: state.asnumpy() for name, state in executor.aux_dict.items()}
    assert all(np.isfinite(weight).all() for weight in weights.values())  # else equality would show nothing
    return first, weights


def bind_partitioned(
    model: PlainModel,
    workers: int,
    dtype: str,
    plan: Plan | None = None,
    hints: Mapping[str, Any] | None = None,
    **asked: Any,
) -> ShardedExecutor:
    symbol = tofu.partition(model.symbol, workers, plan=plan, hints=hints, **asked)
    shapes = all_shapes(model)
    inputs = input_names(model)
    return tofu.bind(symbol, type_dict=dict.fromkeys(inputs, dtype), **{name: shapes[name] for name in inputs})


def run_partitioned(
    executor: ShardedExecutor, values: Mapping[str, np.ndarray], steps: int = 1
) -> tuple[RunNumbers, Arrays, int]:
    for name, value in values.items():
        executor.variables[name].scatter(value)
    mx.nd.waitall()
    graph = executor.partition.graph
    names = [graph.tensors[position].name for position in graph.gradients]
    states = [tensor.name for tensor in graph.tensors if tensor.kind is TensorKind.AUXILIARY]
    first, moved = None, 0
    for _ in range(steps):
        _mxnet.reset_counters()
        executor.forward(is_train=True)
        executor.backward()
        if first is None:
            mx.nd.waitall()
            moved = _mxnet.counters()["bytes_read_remote"]
            heads = executor.partition.source.native.list_outputs()[: len(graph.outputs)]
            outputs = {name: executor.output(i).gather().asnumpy() for i, name in enumerate(heads)}
            first = RunNumbers(outputs, {name: executor.gradient(name).gather().asnumpy() for name in names})
        for name in names:
            for weight, gradient in zip(executor.variables[name].arrays, executor.gradient(name).arrays, strict=True):
                mx.nd.sgd_update(weight, gradient, lr=LEARNING_RATE, out=weight)
    assert first is not None
    return first, {name: executor.variables[name].gather().asnumpy() for name in (*names, *states)}, moved


def fill_free_memory() -> None:
    """Fill free memory with NaN, so that unwritten results show."""
    arrays = [mx.nd.full((size,), np.nan) for size in (8, 64, 512, 4096) for _ in range(8)]
    mx.nd.waitall()
    del arrays


def largest_error(found: RunNumbers, expected: RunNumbers) -> float:
    return max(difference.error for difference in compare_numbers(found, expected))


def weight_error(found: Arrays, expected: Arrays) -> float:
    return max((relative_error(found[name], expected[name]) for name in expected), default=0.0)


def check_graph(partition: Partition) -> None:
    assert count_remote_bytes(partition.training.symbol) == partition.plan.communication_bytes
    assert sum(partition.plan.step_bytes) == partition.plan.communication_bytes
