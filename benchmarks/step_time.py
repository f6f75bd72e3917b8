"""Seconds of a training step of k workers over those of one device on the same processors, and the part that is fetching.

    python -m benchmarks.step_time

A step is forward, backward and the update by SGD with momentum, under the default plan. Its work is the same on one device and on k;
fetches, smaller kernels and more nodes are added. Settings:

- one device: MXNet's own executor, with OMP_NUM_THREADS=1 and 2;
- k workers: the partitioned model, one thread each;
- no fetches: the same with TOFU_SKIP_FETCH=1, which leaves the computation (section 7.3 of the paper);
- apart: k independent copies, the workers' graphs without any edge between them.

Every setting runs in a process of its own, in turn, `--rounds` times; the fastest step counts. Subnormal numbers are zero in all of them:
what is computed without fetches means nothing, and would be full of them. A step of one device takes 1.5 seconds or more. "processor" is
the time of all processors in such a step, which other programs disturb less than the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
import mxnet as mx
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import tofu
from tests.cuda.native import build_flush
from tests.models.paper import Model, rnn, transformer, wresnet
from tests.shared.programs import ProgramWriter
from tofu.graph import Phase
from tofu.mxnet.backend.execution_graph import build_symbol
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.optimizer.optimizer import ShardOptimizer
from tofu.program import NodeKind, write_program

MODELS: dict[str, Callable[[], Model]] = {
    "WResNet": lambda: wresnet(50, 2, 40, image=128, classes=128, base=32),
    "Transformer": lambda: transformer(4, 640, 8, 8, length=256, vocabulary=2048),
    "RNN": lambda: rnn(4, 1024, 40, features=512, classes=512),
}
OPTIMIZER, OPTIMIZER_PARAMETERS = "sgd", {"learning_rate": 1e-6, "momentum": 0.9}
STEPS = 4  # of each process; the first ones warm up
TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True)
class Setting:
    """One way to run a step."""

    workers: int
    threads: int = 1
    skips_fetches: bool = False
    is_apart: bool = False

    @property
    def name(self) -> str:
        if self.workers == 1:
            return f"one device, {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.workers} workers{', apart' if self.is_apart else ', no fetches' if self.skips_fetches else ''}"


@dataclass(frozen=True)
class Seconds:
    """Of one training step."""

    clock: float
    processor: float


def run_steps(step: Callable[[], None]) -> Seconds:
    """The fastest step of one process."""
    found = []
    for _ in range(STEPS):
        started, used = time.perf_counter(), time.process_time()
        step()
        mx.nd.waitall()
        found.append(Seconds(time.perf_counter() - started, time.process_time() - used))
    return fastest(found[1:])


def fastest(found: list[Seconds]) -> Seconds:
    """The smallest of each."""
    return Seconds(min(seconds.clock for seconds in found), min(seconds.processor for seconds in found))


def draw_values(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Small positive numbers, which stay normal numbers whatever is done with them for a few steps."""
    rng = np.random.RandomState(0)
    for name, shape in shapes.items():
        yield name, rng.uniform(0, 0.05, shape).astype("float32")


def run_single(model: Model) -> Seconds:
    """MXNet's own executor."""
    requests = {
        name: "null" if name in model.shapes or name.endswith("label") else "write"
        for name in model.symbol.list_arguments()
    }
    executor = model.symbol.simple_bind(mx.cpu(0), grad_req=requests, **model.shapes)
    for name, value in draw_values({name: array.shape for name, array in executor.arg_dict.items()}):
        executor.arg_dict[name][:] = value
    updater = mx.optimizer.get_updater(mx.optimizer.create(OPTIMIZER, **OPTIMIZER_PARAMETERS))
    trained = [name for name, request in requests.items() if request == "write"]

    def step() -> None:
        executor.forward(is_train=True)
        executor.backward()
        for index, name in enumerate(trained):
            updater(index, executor.grad_dict[name], executor.arg_dict[name])

    return run_steps(step)


def run_workers(model: Model, setting: Setting) -> Seconds:
    """The partitioned model on devices of this machine."""
    contexts = [mx.cpu(worker) for worker in range(setting.workers)]
    executor = tofu.bind(tofu.partition(model.symbol, contexts=contexts), **model.shapes)
    if setting.is_apart:
        executor = ShardedExecutor(take_apart(executor.partition), contexts)
    for name, value in draw_values({name: variable.shape for name, variable in executor.variables.items()}):
        executor.variables[name].scatter(value)
    trained = executor.differentiated
    optimizer = ShardOptimizer(OPTIMIZER, OPTIMIZER_PARAMETERS, trained, 1.0, model.symbol)

    def step() -> None:
        executor.forward(is_train=True)
        executor.backward()
        optimizer.update(executor)

    return run_steps(step)


def take_apart(partition: Any) -> Any:
    """The partition with an execution graph whose fetches read nothing. All operators' copies still run."""
    program = write_program(partition.choices)
    writer = ProgramWriter(program.workers)
    for node in program.nodes:
        inputs = () if node.kind is NodeKind.FETCH else node.inputs
        writer.add(node.kind, node.id, node.worker, node.phase, node.shapes, inputs)
    fetches = [node for node in program.nodes if node.kind is NodeKind.FETCH]
    fetched = dict.fromkeys(entry for node in fetches for entry in node.inputs)
    read = {entry for node in program.nodes if node.kind is not NodeKind.FETCH for entry in node.inputs}
    read.update(program.handed_out)
    # Nobody computes what nobody reads.
    writer.outputs = [*program.handed_out, *(entry for entry in fetched if entry not in read)]
    symbol = build_symbol(partition.source, replace(program, code=writer.encode()))
    return replace(partition, training=replace(partition.training, symbol=symbol))


def measure(name: str, setting: Setting) -> Seconds:
    """Run one setting in a process of its own."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(setting.threads),
        "TOFU_SKIP_FETCH": str(int(setting.skips_fetches)),
        "LD_PRELOAD": str(build_flush()),
    }
    command = [sys.executable, "-m", "benchmarks.step_time", "--run", json.dumps({"model": name, **asdict(setting)})]
    finished = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return Seconds(**json.loads(finished.stdout.splitlines()[-1]))


def run_setting(model: str, **fields: Any) -> None:
    """What such a process does."""
    setting = Setting(**fields)
    built = MODELS[model]()
    print(json.dumps(asdict(run_single(built) if setting.workers == 1 else run_workers(built, setting))))


def list_settings(workers: list[int]) -> list[Setting]:
    """One device first."""
    settings = [Setting(1, threads) for threads in (1, 2)]
    for count in workers:
        whole = Setting(count)
        skipping = replace(whole, skips_fetches=True)
        settings += [whole, skipping, replace(skipping, is_apart=True)]
    return settings


def print_table(name: str, found: Mapping[Setting, Seconds]) -> None:
    """Seconds, and their ratios to the better of one device's settings."""
    single = fastest([seconds for setting, seconds in found.items() if setting.workers == 1])
    table = Table(
        "", "clock (s)", "over one device", "processor (s)", "over one device", "over copies apart", title=name
    )
    for setting, seconds in found.items():
        apart = found.get(replace(setting, skips_fetches=True, is_apart=True))
        table.add_row(
            setting.name,
            f"{seconds.clock:.2f}",
            f"{seconds.clock / single.clock:.2f}",
            f"{seconds.processor:.2f}",
            f"{seconds.processor / single.processor:.2f}",
            "" if apart is None else f"{seconds.clock / apart.clock:.2f}, {seconds.processor / apart.processor:.2f}",
        )
    Console().print(table)


@click.command(help=__doc__)
@click.option("--models", default=",".join(MODELS), show_default=True, help="Models, comma separated.")
@click.option("--workers", default="2,4,8", show_default=True, help="Numbers of workers, comma separated.")
@click.option("--rounds", default=1, show_default=True, help="Processes for each setting.")
@click.option("--run", default="", hidden=True, help="One setting, as JSON: print its seconds.")
def main(models: str, workers: str, rounds: int, run: str) -> None:
    if run:
        run_setting(**json.loads(run))
        return
    settings = list_settings([int(count) for count in workers.split(",")])
    for name in models.split(","):
        found: dict[Setting, list[Seconds]] = {setting: [] for setting in settings}
        for _ in range(rounds):
            for setting, seconds in found.items():
                seconds.append(measure(name, setting))
        print_table(name, {setting: fastest(seconds) for setting, seconds in found.items()})


if __name__ == "__main__":
    main()
