"""Measure the time of training steps, and how much of this time MXNet spends outside of kernels.

A kernel takes longer in a step than alone, because less of its input is in the cache. This command writes the
measurements to FILE, as JSON:

    python -m tofu.mxnet.calibration.engine FILE
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import mxnet as mx

import tofu  # noqa: F401  before MXNet
from tofu.mxnet.calibration.models import CalibrationCase, list_steps
from tofu.mxnet.partition import partition
from tofu.mxnet.planning import plan_task, read_trained
from tofu.mxnet.runtime.module.module import Module
from tofu.planning.settings import Settings
from tofu.program import NodeKind
from tofu.simulation.simulate import write_one_device_program

RUNS = 12
LAYER_COUNTS = (2, 40)  # layers of two perceptrons that compute almost nothing
WIDE_PERCEPTRON = (2048, 3)  # width and layers of a perceptron with large updates
WORKERS = 2


def _find_median_seconds(run: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - start)
    return median(seconds[2:])


def _measure_speedup_of_all_processors() -> float:
    count = len(os.sched_getaffinity(0))
    operands = [mx.nd.ones((512, 512), mx.cpu(device)) for device in range(count)]

    def run(devices: int) -> Callable[[], None]:
        def multiply() -> None:
            for _ in range(20):
                for operand in operands[:devices]:
                    mx.nd.dot(operand, operand)

        return multiply

    return count * min(1.0, _find_median_seconds(run(1)) / _find_median_seconds(run(count)))


class MeasuredStep(NamedTuple):
    """Times of a training step.

    Attributes
    ----------
    nodes
        The number of operators on each worker.
    seconds
        Time of the step without weight updates.
    updates
        The number of weight updates.
    update_seconds
        Time of all weight updates.
    """

    nodes: float
    seconds: float
    updates: int
    update_seconds: float


def _measure_step(width: int, layers: int, workers: int) -> MeasuredStep:
    net = mx.sym.Variable("data")
    for layer in range(layers):
        net = mx.sym.FullyConnected(net, num_hidden=width, no_bias=True, name=f"fc{layer}")
        net = mx.sym.Activation(net, act_type="relu")
    symbol = mx.sym.SoftmaxOutput(net, name="softmax")
    task = read_trained(symbol, {"data": (16, width)}, Settings(workers=WORKERS, cache=False))
    program = write_one_device_program(task) if workers == 1 else plan_task(task).program
    module, batch = make_module(symbol, {"data": (16, width)}, workers)
    seconds = _find_median_seconds(lambda: module.forward_backward(batch))
    nodes = int((program.tables.node_kind != NodeKind.VARIABLE).sum())
    return MeasuredStep(nodes / workers, seconds, workers * layers, _find_median_seconds(module.update))


def make_module(symbol: Any, shapes: Mapping[str, tuple[int, ...]], workers: int) -> tuple[Any, Any]:
    """Return an MXNet module with SGD and momentum, and a batch to train it on."""
    module_class = mx.mod.Module
    if workers > 1:
        module_class, symbol = Module, partition(symbol, contexts=[mx.cpu(worker) for worker in range(workers)])
    inferred, _, _ = symbol.infer_shape(**shapes)
    shape_by_argument = dict(zip(symbol.list_arguments(), inferred, strict=True))
    label_shapes = [item for item in shape_by_argument.items() if item[0].endswith("label")]
    labels = [name for name, _ in label_shapes]
    data_shapes = [(name, shape_by_argument[name]) for name in shapes if name not in labels]
    module = module_class(symbol, data_names=[name for name, _ in data_shapes], label_names=labels)
    module.bind(data_shapes, label_shapes)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 1e-4, "momentum": 0.9})
    data = [mx.nd.ones(shape) for _, shape in data_shapes]
    return module, mx.io.DataBatch(data, [mx.nd.zeros(shape) for _, shape in label_shapes])


def measure_whole(case: CalibrationCase) -> float:
    """Return the median time of a training step in seconds. The time includes weight updates."""
    module, batch = make_module(case.symbol, case.shapes, case.workers)

    def train() -> None:
        module.forward_backward(batch)
        module.update()

    return _find_median_seconds(train)


def _measure_engine() -> dict[str, float]:
    overheads = {"processors": _measure_speedup_of_all_processors()}
    for name, workers in (("call", 1), ("call_of_several", WORKERS)):
        shallow, deep = (_measure_step(16, layers, workers) for layers in LAYER_COUNTS)
        overheads[name] = max(0.0, (deep.seconds - shallow.seconds) / (deep.nodes - shallow.nodes))
        overheads["step"] = max(0.0, shallow.seconds - overheads[name] * shallow.nodes)
        overheads["update_call"] = deep.update_seconds / deep.updates
    width, layers = WIDE_PERCEPTRON
    wide = _measure_step(width, layers, WORKERS)
    update_bytes = 5 * 4 * width * width / WORKERS  # weight, gradient and momentum, read and written
    update_seconds = wide.update_seconds / wide.updates * min(WORKERS, overheads["processors"])
    return {**overheads, "update_byte": max(0.0, update_seconds - overheads["update_call"]) / update_bytes}


def main(path: str) -> None:
    """Measure training steps, and write their times to the file `path`."""
    steps = [measure_whole(case) for case in list_steps()]
    Path(path).write_text(json.dumps({**_measure_engine(), "steps": steps}))


if __name__ == "__main__":
    main(sys.argv[1])
