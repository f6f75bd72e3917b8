"""A long run: a model with BatchNorm trained by Adam on k workers with checkpoints, then resumed on another number, beside one device.

    python -m benchmarks.endurance [--steps 2000] [--workers 4] [--resumed-on 6] [--resumed-steps 500]

Both runs take the same batches, in double precision. The losses must agree at every step, and the memory of the process must not grow
after it has settled; else the command fails.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mxnet as mx
import numpy as np

import tofu

BATCH, CHANNELS, SIDE, CLASSES = 24, 3, 8, 10
DISTINCT_BATCHES = 40
CHECKPOINT_EVERY = 250
SAMPLE_EVERY = 10
SETTLED_AFTER = 0.25  # of the steps: allocators and caches have found their size
TOLERANCE = 1e-6
MAY_GROW_BYTES = 8 << 20
ADAM = {"learning_rate": 0.002}
SHAPES = {"data": (BATCH, CHANNELS, SIDE, SIDE), "softmax_label": (BATCH,)}


@dataclass(frozen=True)
class Sample:
    """What was seen at a step."""

    step: int
    workers: int
    resident_bytes: int


def make_model() -> Any:
    """Two convolutions with BatchNorm, smooth everywhere, so that rounding does not grow by itself."""
    net = mx.sym.Variable("data")
    for layer in range(2):
        net = mx.sym.Convolution(net, num_filter=12, kernel=(3, 3), pad=(1, 1), no_bias=True, name=f"conv{layer}")
        net = mx.sym.BatchNorm(net, fix_gamma=False, eps=1e-3, name=f"bn{layer}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"tanh{layer}")
    net = mx.sym.Pooling(net, global_pool=True, pool_type="avg", kernel=(1, 1))
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=CLASSES, name="fc"), name="softmax")


def make_batches() -> list[Any]:
    """A few random batches, which are gone through again and again: what is learnt is learnt by heart."""
    rng = np.random.RandomState(0)
    return [
        mx.io.DataBatch(
            [mx.nd.array(rng.uniform(-1, 1, SHAPES["data"]), dtype="float64")],
            [mx.nd.array(rng.randint(0, CLASSES, BATCH), dtype="float64")],
        )
        for _ in range(DISTINCT_BATCHES)
    ]


def begin(module: Any) -> Any:
    """Bound, with equal parameters every time, and Adam."""
    mx.random.seed(1)
    bind(module).init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params=ADAM)
    return module


def bind(module: Any) -> Any:
    """Bound for the shapes of the batches."""
    data, label = (mx.io.DataDesc(name, shape, "float64") for name, shape in SHAPES.items())
    module.bind([data], [label])
    return module


def step(module: Any, batch: Any) -> float:
    """One training step; its loss before the update."""
    module.forward_backward(batch)
    output, labels = module.get_outputs()[0].asnumpy(), batch.label[0].asnumpy().astype(int)
    module.update()
    return float(-np.log(np.maximum(output[np.arange(BATCH), labels], 1e-300)).mean())


def resident_bytes() -> int:
    """Bytes of this process that lie in memory."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) << 10


def train_in_turns(prefix: str, arguments: argparse.Namespace) -> Iterator[tuple[Any, int, int]]:
    """The module that takes each step, with the number of the step and of its workers: saved at times, and once loaded by more workers."""
    module = begin(tofu.mod.Module(make_model(), ngpus=arguments.workers))
    for number in range(arguments.steps):
        yield module, number, arguments.workers
        if (number + 1) % CHECKPOINT_EVERY == 0 or number + 1 == arguments.steps:
            module.save_checkpoint(prefix, (number + 1) % 10000, save_optimizer_states=True)
    module = tofu.mod.Module.load(
        prefix, arguments.steps % 10000, load_optimizer_states=True, ngpus=arguments.resumed_on
    )
    bind(module).init_optimizer(optimizer="adam", optimizer_params=ADAM)
    for number in range(arguments.steps, arguments.steps + arguments.resumed_steps):
        yield module, number, arguments.resumed_on


def run(arguments: argparse.Namespace) -> tuple[list[float], list[Sample]]:
    """The relative difference of the loss at every step, and the samples of memory."""
    batches, single = make_batches(), begin(mx.mod.Module(make_model()))
    errors, samples, started = [], [], time.perf_counter()
    with TemporaryDirectory() as folder:
        for module, number, workers in train_in_turns(str(Path(folder) / "long"), arguments):
            batch = batches[number % DISTINCT_BATCHES]
            found, expected = step(module, batch), step(single, batch)
            errors.append(abs(found - expected) / max(abs(expected), 1e-12))
            if number % SAMPLE_EVERY == 0:
                samples.append(Sample(number, workers, resident_bytes()))
            if number % 250 == 0:
                print(
                    f"step {number:5} on {workers} workers: loss {found:.12f}, on one device {expected:.12f}, "
                    f"{samples[-1].resident_bytes / 2**20:.1f} MiB, {time.perf_counter() - started:.0f} s",
                    flush=True,
                )
    return errors, samples


def growth(samples: list[Sample], workers: int) -> int:
    """By how many bytes the memory grew after it had settled: the last third of what follows against the first."""
    sizes = [sample.resident_bytes for sample in samples if sample.workers == workers]
    settled = sizes[int(len(sizes) * SETTLED_AFTER) :]
    third = max(1, len(settled) // 3)
    return max(settled[-third:]) - max(settled[:third])


def main() -> None:
    """Run, print what was measured, fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--resumed-on", type=int, default=6)
    parser.add_argument("--resumed-steps", type=int, default=500)
    arguments = parser.parse_args()
    errors, samples = run(arguments)
    grown = {workers: growth(samples, workers) for workers in (arguments.workers, arguments.resumed_on)}
    worst = int(np.argmax(errors))
    print(
        f"losses: {len(errors)} steps, largest relative difference {errors[worst]:.1e} at step {worst} (bar {TOLERANCE:.0e})"
    )
    for workers, size in grown.items():
        print(
            f"memory on {workers} workers: grew by {size / 2**20:+.1f} MiB after it settled (bar {MAY_GROW_BYTES / 2**20:.0f} MiB)"
        )
    if not max(errors) < TOLERANCE or max(grown.values()) > MAY_GROW_BYTES:
        raise SystemExit("FAILED")


if __name__ == "__main__":
    main()
