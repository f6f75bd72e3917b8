"""Models of GluonCV, GluonNLP and Gluon's zoo under `tofu.gluon.partition`: two training steps against one device.

    python -m tests.campaigns.gluon_models --jobs 2
    python -m tests.campaigns.gluon_models --models bert,ssd_300_vgg16 --workers 4
    python -m tests.campaigns.gluon_models --summary

Each model is what its library makes, in float64 where MXNet has kernels for it, and runs as its users run it: initialized, hybridized,
called once, trained by a Trainer. GluonCV and GluonNLP have to be installed for theirs (`.ci/gluon` does it).
Dropout is off, which draws other numbers on workers. Where an error is above the bar, one device runs again on inputs that are off by a
rounding: a network that makes as much of those is not held against Tofu. Results are kept in a file.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.shared.campaigns import choose_names, print_problems, read_results, run_waiting

RESULTS = Path("demo-output/gluon-models.jsonl")
LIMIT = {"float64": 1e-8, "float32": 1e-4}  # of the largest number of each array
# Arrays of nothing but smaller numbers count as if one were so large. Rounding alone makes some: softmax cancels the gradient of the bias
# of attention's keys.
SMALLEST = {"float64": 1e-6, "float32": 1e-4}
STEPS = 2
ROUNDING = {"float64": 2.0**-52, "float32": 2.0**-23}
ROUNDING_FACTOR = 30  # workers round at each operator, and not at the inputs alone


@dataclass(frozen=True)
class Case:
    """One model on some workers."""

    model: str
    workers: int
    seeds: tuple[int, ...] = (0,)

    @property
    def key(self) -> str:
        """What a result is found by."""
        return repr(self)

    def __str__(self) -> str:
        return f"{self.model}, {self.workers} workers"


@dataclass(frozen=True)
class Result:
    """The largest error of outputs and parameters, what one device makes of a rounding of its inputs, what the plan moves, and the seconds
    of both runs, planning included.
    """

    error: float | None = None
    of_rounding: float | None = None
    bytes_moved: int | None = None
    seconds: float | None = None
    whole_seconds: float | None = None
    fails_whole: str | None = None
    problems: list[str] = field(default_factory=list)


def run(case: Case) -> tuple[Case, Result]:
    """Train on one device and on workers."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")  # GluonCV and GluonNLP are older than NumPy is
    from tests.campaigns.gluon_zoo.models import MODELS

    try:
        begin = time.perf_counter()
        expected, _ = train(case.model, 1)
        whole_seconds = time.perf_counter() - begin
    except Exception as error:
        return case, Result(fails_whole=_describe(error))
    try:
        begin = time.perf_counter()
        found, net = train(case.model, case.workers)
        seconds = time.perf_counter() - begin
    except Exception as error:
        return case, Result(whole_seconds=whole_seconds, problems=[_describe(error)])
    dtype = MODELS[case.model].dtype
    smallest, limit = SMALLEST[dtype], LIMIT[dtype]
    error, of_rounding = _measure(found, expected, smallest), None
    if error > limit:
        of_rounding = _measure(train(case.model, 1, is_rounded=True)[0], expected, smallest)
    is_explained = of_rounding is not None and error <= ROUNDING_FACTOR * of_rounding
    problems = [] if error <= limit or is_explained else [f"an error of {error:.1e}, {of_rounding:.1e} of a rounding"]
    return case, Result(error, of_rounding, net.plan.communication_bytes, seconds, whole_seconds, problems=problems)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()[:400]}"


def _measure(found: Sequence[Any], expected: Sequence[Any], smallest: float) -> float:
    """The largest difference of two arrays, relative to the largest number of the second."""
    return max(
        float(abs(own - one).max() / max(smallest, abs(one).max()))
        for own, one in zip(found, expected, strict=True)
        if own.size
    )


def train(name: str, workers: int, is_rounded: bool = False) -> tuple[list[Any], Any]:
    """All outputs of some steps and all parameters after them, and the block."""
    import mxnet as mx
    import numpy as np
    from mxnet import autograd, gluon

    import tofu
    from tests.campaigns.gluon_zoo.models import MODELS

    recipe = MODELS[name]
    mx.random.seed(1)
    np.random.seed(1)
    net = recipe.make()
    net.cast(recipe.dtype)
    net.initialize(mx.init.Xavier(), force_reinit=True)
    net.apply(lambda block: setattr(block, "_rate", 0.0) if isinstance(block, gluon.nn.Dropout) else None)
    net.hybridize()
    net = tofu.gluon.partition(net, ngpus=workers)
    draw = np.random.RandomState(0)
    arrays = recipe.inputs(draw)
    if is_rounded:
        arrays = [array * (1 + ROUNDING[recipe.dtype]) for array in arrays]
    inputs = [mx.nd.array(array, dtype=recipe.dtype) for array in arrays]
    net(*inputs)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    found = []
    for _ in range(STEPS):
        with autograd.record():
            outputs = [output for output in _flatten(net(*inputs)) if output.dtype == np.dtype(recipe.dtype)]
            weights = [mx.nd.array(draw.randn(*output.shape), dtype=recipe.dtype) for output in outputs]
            loss = mx.nd.add_n(*((o * w).mean().reshape((1,)) for o, w in zip(outputs, weights, strict=True)))
        loss.backward()
        trainer.step(1, ignore_stale_grad=True)
        found += [output.asnumpy() for output in outputs]
    return [*found, *(parameter.data().asnumpy() for parameter in net.collect_params().values())], net


def _flatten(outputs: Any) -> list[Any]:
    return [array for part in outputs for array in _flatten(part)] if isinstance(outputs, (list, tuple)) else [outputs]


def print_errors(results: dict[str, tuple[Case, Result]], console: Console) -> None:
    """A row for each model."""
    table = Table("model", "workers", "largest error", "of a rounding", "MB moved", "seconds", "on one device")
    for case, result in sorted(results.values(), key=lambda row: (row[0].model, row[0].workers)):
        failure = result.fails_whole or "".join(result.problems)
        shown = failure[:60] if result.error is None else f"{result.error:.1e}"
        numbers = (result.bytes_moved and result.bytes_moved / 1e6, result.seconds, result.whole_seconds)
        rounding = "" if result.of_rounding is None else f"{result.of_rounding:.1e}"
        table.add_row(
            case.model, str(case.workers), shown, rounding, *("" if n is None else f"{n:.1f}" for n in numbers)
        )
    console.print(table)


@click.command(help=__doc__)
@click.option("--models", help="Names, comma separated; all of the libraries that are installed if none is said.")
@click.option("--workers", default="2,3,4", show_default=True, help="Numbers of workers, comma separated.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--summary", is_flag=True, help="Print what the file holds; run nothing.")
def main(models: str | None, workers: str, jobs: int, path: Path, summary: bool) -> None:
    """Runs what is not in the file yet, and prints the table."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    if not summary:
        import tofu  # noqa: F401  makes MXNet importable
        from tests.campaigns.gluon_zoo.models import MODELS

        installed = [name for name, recipe in MODELS.items() if find_spec(recipe.library)]
        chosen = choose_names(models, MODELS) if models else installed
        cases = [Case(name, int(count)) for name in chosen for count in workers.split(",")]
        run_waiting(run, cases, Result, jobs, path, console, cases_of_a_process=1)
    results = read_results(path, Case, Result)
    print_errors(results, console)
    for case, result in results.values():
        if result.fails_whole:
            console.print(f"{case}: {result.fails_whole}", markup=False)
    sys.exit(not print_problems(results, console))


if __name__ == "__main__":
    main()
