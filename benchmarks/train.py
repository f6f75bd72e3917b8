"""The paper's training runs: speed, memory and communication of a large model over several devices.

\b
    python -m benchmarks.train --model wresnet-152-10 --ngpus 8 --batch 8
    python -m benchmarks.train --model rnn-8-8k --ngpus 8 --batch 128
    python -m benchmarks.train --model wresnet-152-10 --ngpus 8 --batch 8 --contexts cpu --scale 16 --steps 3

Data is random, and the same in every step. --scale divides the widths of all layers, for machines with too little memory for the model. A
model that does not fit is refused before memory is allocated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import click
import mxnet as mx
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tofu
from tests.models.paper import PaperModel, build_model
from tofu import _mxnet
from tofu.formatting import format_bytes
from tofu.host.host_memory import read_free_bytes
from tofu.mxnet.frontend.read_symbol import find_labels

GIB = 2**30
OPTIMIZER, OPTIMIZER_PARAMETERS = "sgd", {"learning_rate": 0.01, "momentum": 0.9}


def available_bytes(contexts: Sequence[Any]) -> dict[str, float]:
    """Return the free bytes of each device. All workers on CPUs share the host's memory."""
    if contexts[0].device_type == "gpu":
        return {str(context): mx.context.gpu_memory_info(context.device_id)[0] for context in contexts}
    return {"the host": read_free_bytes()}


def needed_bytes(report: tofu.MemoryReport, contexts: Sequence[Any]) -> dict[str, int]:
    workers = [
        worker.needed_bytes - (0 if context.device_type == "gpu" else worker.rounding_bytes)
        for worker, context in zip(report.workers, contexts, strict=True)
    ]
    if contexts[0].device_type == "gpu":
        return {str(context): need for context, need in zip(contexts, workers, strict=True)}
    return {"the host": sum(workers)}


def check_fits(report: tofu.MemoryReport, contexts: Sequence[Any], scale: int) -> None:
    needed, available = needed_bytes(report, contexts), available_bytes(contexts)
    short = {device: need for device, need in needed.items() if need > available[device]}
    if not short:
        return
    device, need = max(short.items(), key=lambda item: item[1])
    larger = scale
    while (
        need * scale > available[device] * larger
    ):  # weights shrink with the square of the scale, activations with the scale
        larger *= 2
    workers = "all workers together need" if device == "the host" else "a worker needs"
    raise click.UsageError(
        f"The model does not fit with this batch: {workers} {need / GIB:.1f} GiB, and {device} has "
        f"{available[device] / GIB:.1f} GiB free. Use more or larger devices (--ngpus, --contexts), a smaller --batch, or narrower "
        f"layers: try --scale {larger}."
    )


def random_batch(model: PaperModel, labels: Sequence[str]) -> Any:
    """Return a batch: integers for tokens and classes, zeros for begin states, normal numbers otherwise."""
    shapes, outputs, _ = model.symbol.infer_shape(**model.shapes)
    shape_of = dict(zip(model.symbol.list_arguments(), shapes, strict=True))
    rng, classes = np.random.RandomState(0), outputs[0][-1]

    def values(name: str) -> Any:
        shape = shape_of[name]
        if name in labels or (len(shape) == 2 and "embedding_weight" in shape_of):
            return mx.nd.array(rng.randint(0, classes, shape))
        return mx.nd.zeros(shape) if name.startswith("begin") else mx.nd.array(rng.standard_normal(shape))

    data = [name for name in model.shapes if name not in labels]
    return mx.io.DataBatch([values(name) for name in data], [values(name) for name in labels])


def start(model: PaperModel, contexts: Sequence[Any], scale: int) -> tuple[Any, Any, int]:
    labels = list(find_labels(model.symbol))
    symbol = tofu.partition(model.symbol, contexts=contexts, **model.shapes)
    report = tofu.memory_report(symbol, optimizer=OPTIMIZER, optimizer_params=OPTIMIZER_PARAMETERS)
    check_fits(report, contexts, scale)
    batch = random_batch(model, labels)
    data = [name for name in model.shapes if name not in labels]
    module = tofu.mod.Module(symbol, data_names=data, label_names=labels)
    module.bind(
        [(name, array.shape) for name, array in zip(data, batch.data, strict=True)],
        [(name, array.shape) for name, array in zip(labels, batch.label, strict=True)],
    )
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer=OPTIMIZER, optimizer_params=OPTIMIZER_PARAMETERS)
    return module, batch, report.largest.needed_bytes


def measure_loss(module: Any, batch: Any) -> float:
    metric = mx.metric.CrossEntropy()
    module.update_metric(metric, batch.label)
    return float(metric.get()[1])


def run_steps(module: Any, batch: Any, steps: int) -> tuple[list[float], int, list[float]]:
    """Train. Return the seconds of each step, the bytes that the last step read from other workers, and losses.

    The losses are those after the first and after the last step.
    """
    seconds, losses = [], []
    for step in track(range(steps), "training"):
        mx.nd.waitall()
        _mxnet.reset_counters()
        started = time.perf_counter()
        module.forward_backward(batch)
        module.update()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - started)
        if step in (0, steps - 1):
            losses.append(measure_loss(module, batch))
    return seconds, int(_mxnet.counters()["bytes_read_remote"]), losses


@click.command(help=__doc__)
@click.option("--model", "name", required=True, help="wresnet-152-10, rnn-8-8k, transformer-12 and the like.")
@click.option("--ngpus", default=8, show_default=True, help="Number of devices.")
@click.option("--batch", required=True, type=click.IntRange(1), help="Samples in a step.")
@click.option(
    "--contexts", type=click.Choice(["gpu", "cpu"]), help="Kind of device; left out, GPUs where there are any."
)
@click.option("--steps", default=10, show_default=True, type=click.IntRange(1), help="Training steps.")
@click.option("--scale", default=1, show_default=True, help="Divides the widths of all layers.")
def main(name: str, ngpus: int, batch: int, contexts: str | None, steps: int, scale: int) -> None:
    console = Console()
    try:
        model = build_model(name, batch, scale)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    kind = contexts or ("gpu" if mx.context.num_gpus() else "cpu")
    devices = [mx.Context(kind, i) for i in range(ngpus)]
    size = f"{format_bytes(model.weight_bytes())} of weights"
    narrowed = f", widths divided by {scale}" if scale > 1 else ""
    console.print(f"{name}{narrowed}, batch {batch}: {size}, over {ngpus} x {kind}")
    started = time.perf_counter()
    with console.status("planning"):
        try:
            module, data, worker_bytes = start(model, devices, scale)
        except tofu.TofuError as error:
            raise click.ClickException(str(error)) from error
    prepared = time.perf_counter() - started
    seconds, moved, losses = run_steps(module, data, steps)
    later = seconds[1:] or seconds
    table = Table(show_header=False)
    table.add_row("samples per second", f"{batch / median(later):.3g}")
    table.add_row("seconds per step (median, first)", f"{median(later):.2f}, {seconds[0]:.2f}")
    table.add_row("memory per worker, planned", format_bytes(worker_bytes))
    table.add_row("bytes per step, planned", f"{module.plan.communication_bytes:,}")
    table.add_row("bytes per step, read from other workers", f"{moved:,}")
    table.add_row("seconds from the symbol to the first step", f"{prepared:.1f}")
    table.add_row("cross entropy, first and last step", ", ".join(f"{loss:.4f}" for loss in losses))
    console.print(table)


if __name__ == "__main__":
    main()
