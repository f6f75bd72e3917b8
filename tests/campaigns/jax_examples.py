"""Compare three training steps of examples of JAX's libraries over several workers with one device.

    python -m tests.campaigns.jax_examples --source sources --write
    python -m tests.campaigns.jax_examples --source sources --models "flax lm1b;jraph sat" --plans "4 searched"
    python -m tests.campaigns.jax_examples --summary

The folder holds clones of the repositories flax, equinox, haiku, jraph, distrax, optax, jax and vit (see `jax_examples_zoo`), whose
requirements are installed. The examples' own code builds small models, losses, optimizers and steps; data is drawn at random. Steps are
computed in float64, or in float32 if the example's code says so. A plan is "searched", "free" (`replicate="free"`), or "random". Results
are kept in a file.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tests.campaigns.jax_equality import COMPILED_FAST, largest_error
from tests.shared.campaigns import choose_names, print_problems, read_results, run_waiting, write_document

DOCUMENT = Path(__file__).parents[2] / "docs/jax-examples.md"
INTRODUCTION = """# Examples of JAX's libraries

Training steps of examples of flax, equinox, haiku, jraph, distrax, optax, JAX and vision_transformer, built by the examples' own code. The
table compares several workers with one device: it shows the largest error of an array after three steps, relative to its largest number.
Plans are searched on 3 and 8 workers, searched with `replicate="free"` on 2, and random on 4.

An array is excused if a rounding of the inputs changes it as much on one device. Gradients that cancel cause such arrays with Adam, for
example the gradient of the bias of attention's keys. "float32" marks steps whose own code computes in float32. Empty cells were not run.

A solver of diffrax that is differentiated by recursive checkpoints, and an optimizer that searches along a line, have loops of unknown
length. Every worker computes these completely.

`python -m tests.campaigns.jax_examples --source sources --write` writes this page.
"""
RESULTS = Path("demo-output/jax-examples.jsonl")
LIMIT = {"float64": 1e-10, "float32": 1e-4}  # of the largest number of each array
ROUNDING = {"float64": 2.0**-52, "float32": 2.0**-23}
STEPS = 3
PLANS = ("2 free", "3 searched", "4 random", "8 searched")
"""Number of workers and kind of each plan."""


@dataclass(frozen=True)
class ExampleCase:
    model: str
    plans: str
    source: str
    seeds: tuple[int, ...] = (0,)

    @property
    def key(self) -> str:
        return self.model

    def __str__(self) -> str:
        return self.key


@dataclass
class ExampleResult:
    dtype: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    compared: int = 0
    excused: int = 0
    problems: list[str] = field(default_factory=list)


def run(case: ExampleCase) -> tuple[ExampleCase, ExampleResult]:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {COMPILED_FAST}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    warnings.simplefilter("ignore")  # the examples are of other versions than their libraries
    import jax

    from tests.campaigns.jax_examples_zoo.models import load_examples

    result = ExampleResult()
    try:
        example = load_examples()[case.model]
        result.dtype = example.dtype
        jax.config.update("jax_enable_x64", example.dtype == "float64")
        built = Training(result, *example.build(Path(case.source)))
    except Exception as error:  # the other cases continue
        result.problems.append(f"on one device: {type(error).__name__}: {str(error).strip()[:1000]}")
        return case, result
    for plan in case.plans.split(","):
        built.compare(plan, case.seeds[0])
    return case, result


class Training:
    def __init__(self, result: ExampleResult, step: Any, arguments: tuple[Any, ...]) -> None:
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
        found, limit = _train(made, made.place(state), *others), LIMIT[self._result.dtype]
        pairs = list(zip(found, self._expected, strict=True))
        errors = [largest_error([ours], [theirs]) for ours, theirs in pairs]
        wrong = [n for n, error in enumerate(errors) if not error <= limit]
        for n in wrong:
            errors[n] = largest_error([found[n]], [self._expected[n]], [self._rounded[n]])
        error = max(errors, key=lambda error: (error != error, error), default=0.0)
        self._result.errors[plan] = error
        self._result.compared = len(errors)
        self._result.excused = max(self._result.excused, sum(errors[n] == 0 for n in wrong))
        if not error <= limit:
            self._result.problems.append(f"{plan}: off by {error:.1e}, allowed are {limit:.0e}")

    def _partition(self, plan: str, seed: int) -> Any:
        import tofu.jax
        from tests.shared.random_plans import random_plan

        count, kind = plan.split()
        options = {"search_seconds": 5.0, **({"replicate": "free"} if kind == "free" else {})}
        made = tofu.jax.partition(self._step, int(count), self._arguments, **options)
        if kind != "random":
            return made
        return tofu.jax.partition(self._step, int(count), self._arguments, plan=random_plan(made.partition, seed))


def _compile(step: Any, arguments: tuple[Any, ...]) -> Any:
    """Compile the step by `jax.jit`, or by equinox if its modules hold functions and numbers."""
    import equinox
    import jax

    try:
        jax.jit(step).lower(*arguments)
    except Exception:  # JAX has many errors for arguments that are no arrays
        return equinox.filter_jit(step)
    return jax.jit(step)


def _train(step: Any, state: Any, *others: Any) -> list[Any]:
    from tests.models.jax import as_numbers

    for _ in range(STEPS):
        state, *results = step(state, *others)
    return as_numbers((state, results))


def make_table(results: dict[str, tuple[ExampleCase, ExampleResult]]) -> Table:
    plans = sorted({plan for _, result in results.values() for plan in result.errors})
    table = Table("example", "type", *plans, "arrays", "excused", box=box.SIMPLE)
    for name, (case, result) in results.items():
        errors = [_show(case, result, plan) for plan in plans]
        table.add_row(name, result.dtype, *errors, str(result.compared), str(result.excused or ""))
    return table


def _show(case: ExampleCase, result: ExampleResult, plan: str) -> str:
    if plan in result.errors:
        return f"{result.errors[plan]:.1e}"
    return "failed" if plan in case.plans.split(",") else ""


def write_page(results: dict[str, tuple[ExampleCase, ExampleResult]]) -> None:
    failed = [f"- {case}: {'; '.join(result.problems)}" for case, result in results.values() if result.problems]
    failures = ["", "Failures:", "", *(line.replace("\n", " ") for line in failed)] if failed else []
    write_document(DOCUMENT, INTRODUCTION, make_table(results), *failures)


@click.command(help=__doc__)
@click.option("--source", type=click.Path(file_okay=False), help="Folder of the repositories.")
@click.option("--models", help="Names, separated by semicolons. By default, all.")
@click.option("--plans", default=",".join(PLANS), show_default=True, help="Plans, separated by commas.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--summary", is_flag=True, help="Only print the results in the file.")
@click.option("--write", is_flag=True, help="Write the table into docs/jax-examples.md.")
def main(source: str | None, models: str | None, plans: str, jobs: int, path: Path, summary: bool, write: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not summary:
        if source is None or not Path(source).is_dir():
            raise click.UsageError("--source must name the folder of the repositories.")
        from tests.campaigns.jax_examples_zoo.models import load_examples

        cases = [ExampleCase(name, plans, source) for name in choose_names(models, load_examples(), ";")]
        run_waiting(run, cases, ExampleResult, jobs, path, console, cases_of_a_process=1)
    results = read_results(path, ExampleCase, ExampleResult)
    console.print(make_table(results))
    if write:
        write_page(results)
    sys.exit(not print_problems(results, console))


if __name__ == "__main__":
    main()
