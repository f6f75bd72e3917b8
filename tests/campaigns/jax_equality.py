"""Compare three training steps in JAX over several workers with one device.

\b
    python -m tests.campaigns.jax_equality --jobs 2 --seed 1 --plans "2 random,3 random,4 uneven,6 random,8 random"
    python -m tests.campaigns.jax_equality --models "attention;linen.*"
    python -m tests.campaigns.jax_equality --source sources --models "flax lm1b;jraph sat" --plans "4 searched"
    python -m tests.campaigns.jax_equality --source sources --write
    python -m tests.campaigns.jax_equality --summary

The steps are the models of the tests or, with `--source`, those of examples of JAX's libraries. The folder of
`--source` has clones of the repositories flax, equinox, haiku, jraph, distrax, optax and jax, whose requirements must
be installed (`jax_examples_zoo`). The examples' own code builds small models, losses, optimizers and steps. Data is
random. Steps are computed in float64, or in float32 if the example's code requests it. A plan is "searched", "free"
(`replicate="free"`), "uneven" (`uneven="free"`), or "random". Results are kept in a file, and a run continues where the
last one stopped.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tests.shared.campaigns import choose_names, print_problems, read_results, run_waiting, write_document

DOCUMENT = Path(__file__).parents[2] / "docs/jax-examples.md"
INTRODUCTION = """# Examples of JAX's libraries

The examples are training steps from the repositories of flax, equinox, haiku, jraph, distrax, optax and JAX. The table compares three steps
on several devices with the same steps on one device. It shows the largest error of an array, divided by the array's largest number. The
columns show the number of devices and the plan, which says how the step is split:

- 2 free: the plan may store copies of tensors on several devices (`replicate="free"`).
- 3 searched, 8 searched: Tofu's default plan.
- 4 random: a random plan.

The column "excused" counts arrays that are too sensitive to compare. On one device, other rounding of the inputs causes errors of the same
size. For example, a bias of attention keys has no effect, so its gradient consists of rounding errors. The optimizer Adam turns these
errors into large changes. "float32" marks steps whose own code computes in float32. Empty cells were not run.

If the number of a loop's iterations is unknown, every device computes the complete loop. Such loops are in optimizers with a line search,
and in a solver of the library diffrax.

`python -m tests.campaigns.jax_equality --source sources --write` writes this page.
"""
RESULTS = Path("demo-output/jax-equality.jsonl")
# The program of a random plan has thousands of small kernels. LLVM does not optimize them; XLA's own passes still run.
COMPILED_FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
LIMIT = 1e-10  # in float64
LIMITS = {"float64": LIMIT, "float32": 1e-4}  # relative to the largest number of each array
# Some gradients cancel, and their numbers are roundings: of the bias of attention's keys before softmax, or of a bias before a
# normalization. An array passes if a rounding of the step's inputs changes it as much on one device. The factor allows for roundings at
# each operator.
ROUNDING, ROUNDING_FACTOR = {"float64": 2.0**-52, "float32": 2.0**-23}, 30
STEPS = 3
PLANS = ("2 free", "3 searched", "4 random", "8 searched")
"""Number of workers and kind of each plan."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "searched": {},
    "free": {"replicate": "free"},
    "uneven": {"uneven": "free"},
    "random": {"uneven": "free"},  # small arguments are split unevenly only if this is free
}


@dataclass(frozen=True)
class EqualityCase:
    model: str
    plans: str
    source: str
    seed: int = 0

    @property
    def key(self) -> str:
        return f"{self.model}, seed {self.seed}" if self.seed else self.model

    def __str__(self) -> str:
        return self.key


@dataclass
class EqualityResult:
    """Errors of plans, relative to the largest number of an array.

    `excused` is the largest number of arrays in a plan whose errors rounding explains.
    """

    dtype: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    compared: int = 0
    excused: int = 0
    problems: list[str] = field(default_factory=list)


Results = Mapping[str, tuple[EqualityCase, EqualityResult]]


def run_alone(case: EqualityCase) -> tuple[EqualityCase, EqualityResult]:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {COMPILED_FAST}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    warnings.simplefilter("ignore")  # the examples are of other versions than their libraries
    return run_case(case)


def run_case(case: EqualityCase) -> tuple[EqualityCase, EqualityResult]:
    from tofu.jax.frontend.versions import in_precision

    result = EqualityResult()
    try:
        result.dtype, build = load_steps(case.source)[case.model]
        with in_precision(result.dtype == "float64"):
            training = Training(result, *build())
            for plan in case.plans.split(","):
                training.compare(plan, case.seed)
    except Exception as error:  # the other cases continue
        result.problems.append(f"on one device: {type(error).__name__}: {str(error).strip()[:1000]}")
    return case, result


def load_steps(source: str) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return the type of each step, and a function that builds the step and its arguments."""
    if source:
        from tests.campaigns.jax_examples_zoo.models import load_examples

        examples = load_examples().items()
        return {name: (made.dtype, lambda made=made: made.build(Path(source))) for name, made in examples}
    from tests.models.jax import load_models

    def split(step: Any, state: Any, others: tuple[Any, ...]) -> Any:
        return step, (state, *others)

    return {name: ("float64", lambda make=make: split(*make("float64"))) for name, make in load_models().items()}


class Training:
    def __init__(self, result: EqualityResult, step: Any, arguments: tuple[Any, ...]) -> None:
        self._result, self._step, self._arguments = result, step, arguments
        self._whole = _compile(step, arguments)
        self._expected = _train(self._whole, *arguments)

    @cached_property
    def _rounded(self) -> list[Any]:
        import jax

        def round_differently(leaf: Any) -> Any:
            is_real = hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
            return leaf * (1 + ROUNDING[self._result.dtype]) if is_real else leaf

        return _train(self._whole, *jax.tree.map(round_differently, self._arguments))

    def compare(self, plan: str, seed: int) -> None:
        try:
            self._compare(plan, seed)
        except Exception as error:  # the other plans continue
            self._result.problems.append(f"{plan}: {type(error).__name__}: {str(error).strip()[:1000]}")

    def _compare(self, plan: str, seed: int) -> None:
        made = self._partition(plan, seed)
        str(made.plan), str(made.memory_report())
        state, *others = self._arguments
        found, limit = _train(made, made.place(state), *others), LIMITS[self._result.dtype]
        error = largest_error(found, self._expected)
        if not error <= limit:
            excused = list_excused(found, self._expected, self._rounded, limit)
            self._result.excused = max(self._result.excused, sum(excused))
            error = largest_error(found, self._expected, excused)
        self._result.errors[plan] = error
        self._result.compared = len(found)
        if not error <= limit:
            self._result.problems.append(f"{plan}: off by {error:.1e}, allowed are {limit:.0e}")

    def _partition(self, plan: str, seed: int) -> Any:
        import tofu.jax
        from tests.shared.random_plans import random_plan

        count, kind = plan.split()
        asked = self._step, int(count), self._arguments
        made = tofu.jax.partition(*asked, search_seconds=5.0, **OPTIONS[kind])
        if kind != "random":
            return made
        return tofu.jax.partition(*asked, plan=random_plan(made.partition, seed), **OPTIONS[kind])


def _compile(step: Any, arguments: tuple[Any, ...]) -> Any:
    """Compile the step by `jax.jit`, or by equinox if JAX refuses the arguments."""
    import jax

    if hasattr(step, "lower"):
        return step
    try:
        jax.jit(step).lower(*arguments)
    except Exception:  # JAX has many errors for arguments that are no arrays
        import equinox

        return equinox.filter_jit(step)
    return jax.jit(step)


def _train(step: Any, state: Any, *others: Any) -> list[Any]:
    from tests.models.jax import as_numbers

    for _ in range(STEPS):
        state, *results = step(state, *others)
    return as_numbers((state, results))


def largest_error(found: list[Any], expected: list[Any], excused: list[bool] | None = None) -> float:
    """Return the largest error of arrays that are not excused, relative to their largest finite number. NaN if only one result is NaN."""
    pairs = zip(found, expected, excused or [False] * len(found), strict=True)
    errors = [_relative(array, exact) for array, exact, is_excused in pairs if not is_excused]
    return max(errors, key=lambda error: (error != error, error), default=0.0)


def list_excused(found: list[Any], expected: list[Any], rounded: list[Any], limit: float = LIMIT) -> list[bool]:
    """Return True for each array with an error above `limit` that rounding explains.

    `rounded` has the results for rounded inputs.
    """
    return [
        _relative(array, exact) > limit and _measure(array, exact)[0] <= ROUNDING_FACTOR * _measure(again, exact)[0]
        for array, exact, again in zip(found, expected, rounded, strict=True)
    ]


def _relative(array: Any, exact: Any) -> float:
    distance, size = _measure(array, exact)
    return distance / size if size else distance


def _measure(array: Any, exact: Any) -> tuple[float, float]:
    """Return the largest difference of two arrays, and the largest finite number of the second."""
    is_same = (array == exact) | (np.isnan(array) & np.isnan(exact))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        distance = float(np.max(np.abs(np.where(is_same, 0, array - exact)), initial=0.0))
    return distance, float(np.max(np.abs(exact[np.isfinite(exact)]), initial=0.0))


def make_table(results: Results) -> Table:
    plans = sorted({plan for _, result in results.values() for plan in result.errors})
    table = Table("example", "type", *plans, "arrays", "excused", box=box.SIMPLE)
    for name, (case, result) in results.items():
        errors = [_show(case, result, plan) for plan in plans]
        table.add_row(name, result.dtype, *errors, str(result.compared), str(result.excused or ""))
    return table


def _show(case: EqualityCase, result: EqualityResult, plan: str) -> str:
    if plan in result.errors:
        return f"{result.errors[plan]:.1e}"
    return "failed" if plan in case.plans.split(",") else ""


def write_page(results: Results) -> None:
    failed = [f"- {case}: {'; '.join(result.problems)}" for case, result in results.values() if result.problems]
    failures = ["", "Failures:", "", *(line.replace("\n", " ") for line in failed)] if failed else []
    write_document(DOCUMENT, INTRODUCTION, make_table(results), *failures)


@click.command(help=__doc__)
@click.option("--source", type=click.Path(exists=True, file_okay=False), help="Folder of the repositories.")
@click.option("--models", help="Names, separated by semicolons. By default, all.")
@click.option("--plans", default=",".join(PLANS), show_default=True, help="Plans, separated by commas.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random plans.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", default=RESULTS, show_default=True, type=click.Path(path_type=Path))
@click.option("--summary", is_flag=True, help="Only print the results in the file.")
@click.option("--write", is_flag=True, help="Write the table of examples into docs/jax-examples.md.")
def main(
    source: str | None, models: str | None, plans: str, seed: int, jobs: int, path: Path, summary: bool, write: bool
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not summary:
        chosen = choose_names(models, load_steps(source or ""), ";")
        cases = [EqualityCase(name, plans, source or "", seed) for name in chosen]
        run_waiting(run_alone, cases, EqualityResult, jobs, path, console, cases_of_a_process=1)
    results = read_results(path, EqualityCase, EqualityResult)
    console.print(make_table(results))
    if write:
        write_page({name: pair for name, pair in results.items() if pair[0].source})
    sys.exit(not print_problems(results, console))


if __name__ == "__main__":
    main()
