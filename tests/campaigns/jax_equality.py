"""Compare JAX steps under many plans with one device.

    python -m tests.campaigns.jax_equality --plans 6 --jobs 2
    python -m tests.campaigns.jax_equality --models attention,linen.resnet --workers 4 --plans 10
    python -m tests.campaigns.jax_equality --summary

A case is a model, a type and a number of workers. It runs the searched plan for 20 steps, then random plans, which no search would choose,
for 2 steps, on virtual devices in a separate process. EqualityResults are kept in a file, and a run continues where the last one stopped.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.shared.campaigns import choose_names, print_problems, read_results, run_waiting

CHUNK = 6  # random plans of a case
RESULTS = Path("demo-output/jax-equality.jsonl")
# The program of a random plan has thousands of small kernels, which LLVM should not optimize. XLA's own passes stay on.
COMPILED_FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
LIMIT = 1e-10  # in float64
# Some gradients cancel, and their numbers are roundings: of the bias of attention's keys before softmax, or of a bias before a
# normalization. An array passes if a rounding of the step's inputs changes it as much on one device. The factor allows for roundings at
# each operator.
ROUNDING, ROUNDING_FACTOR = 2.0**-52, 30
# Error in float32, over one device's own error, and the error that always passes.
FLOAT32_FACTOR, FLOAT32_FLOOR = 4.0, 1e-6


@dataclass(frozen=True)
class EqualityCase:
    """Plans of a model: the searched one for `default_steps`, if requested, then random ones of these seeds for `steps`."""

    model: str
    dtype: str
    workers: int
    seeds: tuple[int, ...]
    has_default: bool
    steps: int
    default_steps: int

    @property
    def key(self) -> str:
        return repr(self)

    def __str__(self) -> str:
        return f"{self.model}, {self.dtype}, {self.workers} workers"


@dataclass
class EqualityResult:
    """`error` is the largest error, relative to the largest number of its array. `excused` is the largest number of arrays
    of a plan with an error that a rounding explains."""

    plans: int = 0
    excused: int = 0
    error: float = 0.0
    own_error: float = 0.0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


EqualityResults = dict[str, tuple[EqualityCase, EqualityResult]]


def run_case(case: EqualityCase) -> tuple[EqualityCase, EqualityResult]:
    started, result = time.perf_counter(), EqualityResult()
    try:
        _run_plans(case, result)
    except Exception as error:  # the other cases continue
        result.problems.append(f"no plan at all: {type(error).__name__}: {error}"[:1000])
    result.seconds = time.perf_counter() - started
    return case, result


def run_alone(case: EqualityCase) -> tuple[EqualityCase, EqualityResult]:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={case.workers} {COMPILED_FAST}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    return run_case(case)


def _run_plans(case: EqualityCase, result: EqualityResult) -> None:
    import jax

    import tofu.jax
    from tests.models.jax import as_numbers, load_models
    from tests.shared.random_plans import random_plan
    from tofu.jax.frontend.versions import in_double_precision

    def train(step: Any, state: Any, others: Any, steps: int) -> list[Any]:
        for _ in range(steps):
            state, *results = step(state, *others)
        return as_numbers((state, results))

    @cache
    def run(dtype: str, steps: int, is_rounded: bool = False) -> list[Any]:
        step, state, others = build(dtype)
        if is_rounded:
            state, others = jax.tree.map(_round_differently, (state, others))
        return train(step if hasattr(step, "lower") else jax.jit(step), state, others, steps)

    with in_double_precision():
        build = load_models()[case.model]
        step, state, others = build(case.dtype)
        # The arguments are small: they are split unevenly only with uneven="free".
        options = {"uneven": "free"}
        default = tofu.jax.partition(step, case.workers, (state, *others), search_seconds=2, **options)
        plans = [("the default plan", None, case.default_steps)] if case.has_default else []
        plans += [(f"random plan {seed}", seed, case.steps) for seed in case.seeds]
        for what, seed, steps in plans:
            expected = run("float64", steps)
            own = 0.0 if case.dtype == "float64" else largest_error(run(case.dtype, steps), expected)
            limit = LIMIT if case.dtype == "float64" else max(FLOAT32_FACTOR * own, FLOAT32_FLOOR)
            result.plans += 1
            try:
                made = default
                if seed is not None:
                    plan = random_plan(default.partition, seed)
                    made = tofu.jax.partition(step, case.workers, (state, *others), plan=plan, **options)
                found = train(made, made.place(state), others, steps)
                error = largest_error(found, expected)
                if error > limit and case.dtype == "float64":
                    rounded = run("float64", steps, is_rounded=True)
                    result.excused = max(result.excused, sum(list_excused(found, expected, rounded)))
                    error = largest_error(found, expected, rounded)
            except Exception as error:  # the other plans continue
                result.problems.append(f"{what}: {type(error).__name__}: {error}"[:1000])
                continue
            result.error, result.own_error = max(result.error, error), max(result.own_error, own)
            if not error <= limit:
                result.problems.append(f"{what}: off by {error:.1e}, allowed are {limit:.1e}")


def _round_differently(value: Any) -> Any:
    import jax.numpy as jnp

    is_real = hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)
    return value * (1 + ROUNDING) if is_real else value


def largest_error(found: list[Any], expected: list[Any], rounded: list[Any] | None = None) -> float:
    """Return the largest error of arrays not in `list_excused`, relative to the largest finite number of each; NaN if only one is NaN."""
    excused = list_excused(found, expected, rounded) if rounded is not None else [False] * len(found)
    errors = [
        _relative(*pair)
        for pair, is_excused in zip(zip(found, expected, strict=True), excused, strict=True)
        if not is_excused
    ]
    return max(errors, key=lambda error: (error != error, error), default=0.0)


def list_excused(found: list[Any], expected: list[Any], rounded: list[Any]) -> list[bool]:
    """Return True for each array with an error above the limit that the rounded inputs of `rounded` explain."""
    return [
        _relative(array, exact) > LIMIT and _measure(array, exact)[0] <= ROUNDING_FACTOR * _measure(again, exact)[0]
        for array, exact, again in zip(found, expected, rounded, strict=True)
    ]


def _relative(array: Any, exact: Any) -> float:
    distance, size = _measure(array, exact)
    return distance / size if size else distance


def _measure(array: Any, exact: Any) -> tuple[float, float]:
    """Return the largest difference of two arrays, and the largest finite number of the second."""
    import numpy as np

    is_same = (array == exact) | (np.isnan(array) & np.isnan(exact))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        distance = float(np.max(np.abs(np.where(is_same, 0, array - exact)), initial=0.0))
    return distance, float(np.max(np.abs(exact[np.isfinite(exact)]), initial=0.0))


def list_cases(
    models: list[str], workers: list[int], plans: int, steps: int, default_steps: int
) -> Iterator[EqualityCase]:
    """Yield cases by seeds, then by models, so that an interrupted run has some plans of every model."""
    for first in range(0, max(plans, 1), CHUNK):
        seeds = tuple(range(first, min(first + CHUNK, plans)))
        for count in workers:
            for model in models:
                for dtype in ("float64",) if "." in model else ("float64", "float32"):
                    yield EqualityCase(model, dtype, count, seeds, first == 0, steps, default_steps)


def print_errors(results: EqualityResults, console: Console) -> None:
    table = Table(
        *("model", "type", "workers", "plans", "error", "excused", "one device", "problems", "seconds"),
        title="Largest errors against one device in float64, relative to the largest number of an array, without excused ones",
    )
    rows: dict[tuple[str, str], list[tuple[EqualityCase, EqualityResult]]] = {}
    for case, result in results.values():
        rows.setdefault((case.model, case.dtype), []).append((case, result))
    for names, found in sorted(rows.items()):
        runs = [result for _, result in found]
        table.add_row(
            *names,
            " ".join(sorted({str(case.workers) for case, _ in found})),
            str(sum(run.plans for run in runs)),
            f"{max(run.error for run in runs):.1e}",
            str(max(run.excused for run in runs) or ""),
            "" if names[1] == "float64" else f"{max(run.own_error for run in runs):.1e}",
            str(sum(len(run.problems) for run in runs)),
            f"{sum(run.seconds for run in runs):.0f}",
        )
    console.print(table)


@click.command(help=__doc__)
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--workers", default="2,3,4,6,8", show_default=True, help="Numbers of workers, separated by commas.")
@click.option("--plans", default=30, show_default=True, help="Random plans of each model, type and number of workers.")
@click.option("--steps", default=2, show_default=True, help="Steps under a random plan.")
@click.option("--default-steps", default=20, show_default=True, help="Steps under the plan of the search.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", default=RESULTS, show_default=True, type=click.Path(path_type=Path))
@click.option("--summary", is_flag=True, help="Only print the results in the file.")
def main(
    models: str | None,
    workers: str,
    plans: int,
    steps: int,
    default_steps: int,
    jobs: int,
    path: Path,
    summary: bool,
) -> None:
    from tests.models.jax import load_models

    console = Console(width=None if sys.stdout.isatty() else 140)
    if not summary:
        chosen = choose_names(models, load_models())
        counts = [int(count) for count in workers.split(",")]
        cases = list(list_cases(chosen, counts, plans, steps, default_steps))
        run_waiting(run_alone, cases, EqualityResult, jobs, path, console, cases_of_a_process=1)
    results = read_results(path, EqualityCase, EqualityResult)
    print_errors(results, console)
    sys.exit(not print_problems(results, console))


if __name__ == "__main__":
    main()
