"""Seconds of a training step of the unmodified `mx.mod.Module` over a partitioned symbol, over those of `tofu.mod.Module`.

    python -m benchmarks.module_time
    python -m benchmarks.module_time --models MLP --optimizer adam --rounds 9 --most 1.1

Both train the same model by the same plan, in one process, a few steps each in turn, so that other programs disturb both alike. Each
step is forward, backward and update. The medians count. With `--most`, a ratio above it ends the program with status 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import click
import mxnet as mx
import numpy as np
from rich.console import Console
from rich.table import Table

import tofu
from tests.models.paper import Model, wresnet


def build_perceptron() -> Model:
    """Wide layers at a small batch: most of what moves to an update are weights."""
    net = mx.sym.Variable("data")
    for layer in range(3):
        net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=2048, name=f"fc{layer}"), act_type="relu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=128, name="out"), name="softmax")
    return Model("MLP", net, {"data": (64, 2048)})


MODELS: dict[str, Callable[[], Model]] = {
    "MLP": build_perceptron,
    "CNN": lambda: wresnet(50, 2, 8, image=64, classes=128, base=16),
}
STEPS = 4  # of each turn; the first one is not counted


def make_module(kind: Any, model: Model, symbol: Any, optimizer: str) -> Any:
    """A module that trains."""
    module = kind(symbol)
    label = [(name, (model.shapes["data"][0],)) for name in symbol.list_arguments() if name.endswith("label")]
    module.bind(list(model.shapes.items()), label)
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer=optimizer, optimizer_params={"learning_rate": 1e-3})
    return module


def time_steps(module: Any, batch: Any, steps: int = STEPS, warming: int = 1) -> list[float]:
    """Seconds of the steps of one turn, without the first ones, which warm up."""
    found = []
    for _ in range(steps):
        started = time.perf_counter()
        module.forward_backward(batch)
        module.update()
        mx.nd.waitall()
        found.append(time.perf_counter() - started)
    return found[warming:]


def measure(model: Model, workers: int, optimizer: str, rounds: int) -> dict[str, float]:
    """Median seconds of a step of each kind of module."""
    symbol = tofu.partition(model.symbol, contexts=[mx.cpu(worker) for worker in range(workers)])
    kinds = {"mx.mod.Module": mx.mod.Module, "tofu.mod.Module": tofu.mod.Module}
    modules = {name: make_module(kind, model, symbol, optimizer) for name, kind in kinds.items()}
    rng = np.random.RandomState(0)
    rows = model.shapes["data"][0]
    batch = mx.io.DataBatch([mx.nd.array(rng.rand(*model.shapes["data"]))], [mx.nd.array(rng.randint(0, 128, rows))])
    found: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(rounds):
        for name, module in modules.items():
            found[name] += time_steps(module, batch)
    return {name: median(seconds) for name, seconds in found.items()}


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True, help="Models, comma separated.")
@click.option("--workers", default=2, show_default=True, help="Number of workers.")
@click.option("--optimizer", default="sgd", show_default=True, help="One of MXNet's.")
@click.option("--rounds", default=5, show_default=True, help="Turns of each module.")
@click.option("--most", default=0.0, help="The largest ratio that passes; 0 for any.")
def main(models: str, workers: int, optimizer: str, rounds: int, most: float) -> None:
    """Measure and print a row for each model."""
    table = Table("model", "mx.mod.Module (ms)", "tofu.mod.Module (ms)", "ratio", box=None)
    ratios = []
    for name in models.split(","):
        seconds = measure(MODELS[name](), workers, optimizer, rounds)
        ratios.append(seconds["mx.mod.Module"] / seconds["tofu.mod.Module"])
        table.add_row(name, *(f"{1e3 * each:.0f}" for each in seconds.values()), f"{ratios[-1]:.2f}")
    Console().print(table)
    sys.exit(1 if most and max(ratios) > most else 0)


if __name__ == "__main__":
    main()
