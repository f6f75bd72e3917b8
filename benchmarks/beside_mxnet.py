"""Time and memory of training steps, with Tofu and with MXNet's data parallelism, on the same processors.

\b
    python -m benchmarks.beside_mxnet
    python -m benchmarks.beside_mxnet --workers 2,4 --rounds 5

MXNet's data parallelism is `mx.mod.Module` over k contexts with kvstore "device", which holds every parameter k times
and sums the gradients. `tofu.mod.Module` trains with the default plan. A step is forward, backward and an update by SGD
with momentum. Each configuration runs in a separate process, with one thread for each worker. The time is the median of
the steps, and the memory is the peak of the process minus its memory before binding.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import click
import mxnet as mx
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tofu
from tests.models.paper import PaperModel, wresnet
from tests.shared.isolation import run_cold


def perceptron(batch: int, width: int, layers: int, classes: int) -> PaperModel:
    net = mx.sym.Variable("data")
    for layer in range(layers):
        net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{layer}"), act_type="relu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=classes, name="out"), name="softmax")
    return PaperModel(f"MLP {width} at {batch}", net, {"data": (batch, width)})


MODELS: Mapping[str, Callable[[], PaperModel]] = {
    "MLP": lambda: perceptron(64, 2048, 3, 128),  # transfers mostly weights and their gradients
    "CNN": lambda: wresnet(50, 2, 16, image=64, classes=128, base=16),
}
WAYS = ("MXNet", "Tofu")
STEPS, WARMING = 7, 2  # steps of each process, and steps that warm up


def run(name: str, workers: int, way: str) -> tuple[list[float], int]:
    model = MODELS[name]()
    contexts = [mx.cpu(worker) for worker in range(workers)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if way == "Tofu":
        make_module = partial(tofu.mod.Module, tofu.partition(model.symbol, contexts=contexts))
    else:
        make_module = partial(mx.mod.Module, model.symbol, context=contexts)
    seconds = time_steps(model, make_module)
    return seconds, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def time_steps(model: PaperModel, make_module: Callable[..., Any]) -> list[float]:
    """Train the module `make_module(data_names=..., label_names=...)`. Return the seconds of its steps after the warm-up."""
    labels = [label for label in model.symbol.list_arguments() if label.endswith("label")]
    shapes, _, _ = model.symbol.infer_shape(**model.shapes)
    known = dict(zip(model.symbol.list_arguments(), shapes, strict=True))
    data = [(name, shape) for name, shape in model.shapes.items() if name not in labels]
    rows = data[0][1][0]
    # MXNet asks for one batch size of all inputs whose layout has an N.
    label = [mx.io.DataDesc(name, known[name], layout="N" if known[name][0] == rows else "T") for name in labels]
    module = make_module(data_names=[name for name, _ in data], label_names=labels)
    module.bind(data, label)
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    parameters = {"learning_rate": 1e-4, "momentum": 0.9}
    module.init_optimizer(kvstore="device", optimizer="sgd", optimizer_params=parameters)
    rng = np.random.RandomState(0)
    batch = mx.io.DataBatch(
        [mx.nd.array(rng.rand(*shape)) for _, shape in data], [mx.nd.zeros(described.shape) for described in label]
    )
    seconds = []
    for _ in range(STEPS):
        started = time.perf_counter()
        module.forward_backward(batch)
        module.update()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - started)
    return seconds[WARMING:]


@click.command(help=__doc__)
@click.option("--workers", default="2,4,8", show_default=True, help="Numbers of workers, separated by commas.")
@click.option("--rounds", default=3, show_default=True, help="Runs of each configuration.")
def main(workers: str, rounds: int) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that train
    counts = [int(count) for count in workers.split(",")]
    keys = list(product(MODELS, counts, WAYS))
    steps: dict[tuple[str, int, str], list[float]] = {key: [] for key in keys}
    used: dict[tuple[str, int, str], int] = dict.fromkeys(keys, 0)
    for key in track(keys * rounds, description="running", console=Console(stderr=True)):
        seconds, used_bytes = run_cold(run, *key)
        steps[key] += seconds
        used[key] = max(used[key], used_bytes)
    table = Table("model", "workers", "MXNet ms", "Tofu ms", "Tofu / MXNet", "MXNet MiB", "Tofu MiB")
    for name, count in product(MODELS, counts):
        theirs, ours = (median(steps[name, count, way]) for way in WAYS)
        sizes = (f"{used[name, count, way] / 2**20:.0f}" for way in WAYS)
        table.add_row(name, str(count), f"{1e3 * theirs:.0f}", f"{1e3 * ours:.0f}", f"{ours / theirs:.2f}", *sizes)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
