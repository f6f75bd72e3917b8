"""Time of a partitioned JAX step on one device, compared with `jax.jit` of the step without Tofu.

\b
    python -m benchmarks.jax_step_time                     real sizes, on the GPU that JAX sees
    python -m benchmarks.jax_step_time --small             sizes that a CPU runs in seconds

One worker transfers nothing, so the difference is the cost of Tofu's rewritten step. Both steps run in turn in one
process, from the same state. A time is the median of the rounds. Before that, small models are compared with `jax.jit`
in double precision.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from tests.campaigns.jax_equality import LIMIT, largest_error

OVERHEAD_GOAL = 1.05  # times the time of `jax.jit`


@dataclass(frozen=True)
class StepTime:
    """Median seconds of a step. `overhead` is the time of the partitioned step divided by the time of `jax.jit`."""

    model: str
    plain_seconds: float
    partitioned_seconds: float
    rounds: int

    @property
    def overhead(self) -> float:
        return self.partitioned_seconds / self.plain_seconds


def list_models(is_small: bool) -> Mapping[str, Callable[[], Any]]:
    from tests.models.jax.language import MODELS, lstm, mlp, resnet_of_bottlenecks, transformer

    if is_small:
        return {name: MODELS[name] for name in ("MLP", "Transformer block", "ResNet")}
    return {
        "MLP of 4,096": lambda: mlp(8192, 4096, 4, 1024),
        "4-layer Transformer": lambda: transformer(4, 16, 512, 1024, 16, 4096, 32768, has_adam=True),
        "LSTM 2x64, scan": lambda: lstm(256, 1024, 2, 64, is_loop=True),
        "ResNet-50": lambda: resnet_of_bottlenecks(64),
    }


def check_numbers() -> Iterator[tuple[str, float]]:
    """Yield the largest error of each small model in double precision. Raise AssertionError if it is above the limit."""
    import jax

    import tofu.jax
    from tests.models.jax import as_numbers
    from tests.models.jax.plain import STEPS
    from tofu.jax.frontend.versions import in_double_precision

    with in_double_precision():
        for name, build in STEPS.items():
            step, state, *others = build("float64")
            expected = as_numbers(jax.jit(step)(state, *others))
            made = tofu.jax.partition(step, 1, (state, *others))
            error = largest_error(as_numbers(made(made.place(state), *others)), expected)
            if not error <= LIMIT:
                raise AssertionError(f"{name}: off by {error:.1e} from jax.jit, allowed are {LIMIT:.1e}")
            yield name, error


def time_model(name: str, build: Callable[[], Any], rounds: int) -> StepTime:
    import jax

    import tofu.jax

    model = build()
    made = tofu.jax.partition(model.step, 1, (model.state, model.data), search_seconds=10)
    plain = jax.jit(model.step)
    state, data = draw(model.state), draw(model.data)
    steps = {"plain": plain, "partitioned": made}
    states = {"plain": state, "partitioned": made.place(state)}
    seconds: dict[str, list[float]] = {kind: [] for kind in steps}
    for turn in range(rounds + 2):  # the first two compile and fill caches
        for kind, step in steps.items():
            started = time.perf_counter()
            states[kind] = jax.block_until_ready(step(states[kind], data))[0]
            if turn >= 2:
                seconds[kind].append(time.perf_counter() - started)
    return StepTime(name, statistics.median(seconds["plain"]), statistics.median(seconds["partitioned"]), rounds)


def draw(shapes: Any) -> Any:
    import jax
    import numpy as np

    rng = np.random.default_rng(7)

    def make(leaf: Any) -> Any:
        is_whole = np.issubdtype(leaf.dtype, np.integer)
        numbers = rng.integers(0, 16, leaf.shape) if is_whole else rng.standard_normal(leaf.shape, "float32") / 30
        return jax.device_put(np.asarray(numbers, leaf.dtype))

    return jax.tree.map(make, shapes)


@click.command(help=__doc__)
@click.option("--small", is_flag=True, help="Sizes for a CPU.")
@click.option("--rounds", default=20, show_default=True, help="Timed rounds.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="File for the figures.")
def main(small: bool, rounds: int, path: Path | None) -> None:
    import jax

    device = jax.devices()[0].device_kind
    errors = {}
    for name, error in check_numbers():
        errors[name] = error
        print(f"{name}, float64: off by {error:.1e} from jax.jit", flush=True)
    times = []
    print(f"\n{device}, one device, JAX {jax.__version__}; goal: at most {OVERHEAD_GOAL} of jax.jit\n")
    print(f"{'model':24} {'jax.jit':>10} {'tofu.jax':>10} {'over jit':>9}")
    for name, build in list_models(small).items():
        step_time = time_model(name, build, rounds)
        times.append(step_time)
        print(
            f"{name:24} {step_time.plain_seconds * 1e3:7.2f} ms {step_time.partitioned_seconds * 1e3:7.2f} ms {step_time.overhead:8.3f}x",
            flush=True,
        )
    if path is not None:
        rows = [asdict(each) | {"overhead": each.overhead} for each in times]
        path.write_text(
            json.dumps({"device": device, "jax": jax.__version__, "errors": errors, "steps": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
