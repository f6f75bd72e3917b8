"""The examples of JAX's libraries over several workers: three training steps against one device.

    python -m benchmarks.jax_examples --source sources --write
    python -m benchmarks.jax_examples --source sources --models "flax lm1b;jraph sat" --workers 4
    python -m benchmarks.jax_examples --summary

The folder has flax, equinox, haiku, jraph, distrax, optax, jax and vit in it, each a clone of the repository that `jax_examples_zoo` names;
what they need beside JAX is installed. Steps, models, losses and optimizers are made by the examples' own code, small; data is drawn. Steps
are computed in float64, or in float32 where an example says so in its code. Each case is one plan: that of the search, that of
`replicate="free"`, or a random one, which no search would choose. Results are kept in a file.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.jax_equality import COMPILED_FAST, largest_error
from benchmarks.shared.campaigns import read_results, run_cases

DOCUMENT = Path(__file__).parents[1] / "docs/jax-examples.md"
INTRODUCTION = """# Examples of JAX's libraries

Training steps of the examples of flax, equinox, haiku, jraph, distrax, optax, JAX and vision_transformer, made by the examples' own code,
over several workers against one device: the largest error of an array after three steps, relative to its largest number. The plan is
that of the search on 2, 3, 4 and 8 workers, that of `replicate="free"`, and a random one. An array that differs as much on one device
whose inputs are off by a rounding is excused, and not held against Tofu: what Adam makes of gradients that cancel, such as that of the
bias of attention's keys, is such an array. "float32" is a step whose own code computes in float32. Empty cells were not run.

`python -m benchmarks.jax_examples --source sources --write` makes this page.
"""
RESULTS = Path("demo-output/jax-examples.jsonl")
LIMIT = {"float64": 1e-10, "float32": 1e-4}  # of the largest number of each array
ROUNDING = {"float64": 2.0**-52, "float32": 2.0**-23}
STEPS = 3
PLANS = ("searched", "free", "random")


@dataclass(frozen=True)
class Case:
    """One plan of one example."""

    model: str
    workers: int
    plan: str
    source: str
    seeds: tuple[int, ...] = (0,)

    @property
    def key(self) -> str:
        """What a result is found by."""
        return f"{self.model}, {self.workers} workers, {self.plan}"

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True)
class Result:
    """The type of the numbers, the largest error of arrays that no rounding excuses, how many were compared and how many excused, what
    a step moves by the plan, and what went wrong.
    """

    dtype: str = ""
    error: float | None = None
    compared: int = 0
    excused: int = 0
    moved_bytes: int = 0
    problems: list[str] = field(default_factory=list)


def run(case: Case) -> tuple[Case, Result]:
    """Build the example, and compare its steps."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={case.workers} {COMPILED_FAST}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    warnings.simplefilter("ignore")  # the examples are of other versions than their libraries
    import jax

    from benchmarks.jax_examples_zoo.models import load_examples

    try:
        example = load_examples()[case.model]
        jax.config.update("jax_enable_x64", example.dtype == "float64")
        return case, _compare(case, example.dtype, *example.build(Path(case.source)))
    except Exception as error:  # whatever it is, the other cases go on
        return case, Result(problems=[f"{type(error).__name__}: {str(error).strip()[:1000]}"])


def _compare(case: Case, dtype: str, step: Any, arguments: tuple[Any, ...]) -> Result:
    import equinox
    import jax

    from benchmarks.jax_models import as_numbers

    def train(step: Any, state: Any, others: Any) -> list[Any]:
        for _ in range(STEPS):
            state, *results = step(state, *others)
        return as_numbers((state, results))

    def round_differently(leaf: Any) -> Any:
        is_real = hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
        return leaf * (1 + ROUNDING[dtype]) if is_real else leaf

    whole, (state, *others) = equinox.filter_jit(step), arguments
    made = _partition(case, step, arguments)
    str(made.plan), str(made.memory_report())
    found, expected = train(made, made.place(state), others), train(whole, state, others)
    errors = [largest_error([ours], [theirs]) for ours, theirs in zip(found, expected, strict=True)]
    wrong = [n for n, error in enumerate(errors) if not error <= LIMIT[dtype]]
    if wrong:
        state, *others = jax.tree.map(round_differently, arguments)
        rounded = train(whole, state, others)
        for n in wrong:
            errors[n] = largest_error([found[n]], [expected[n]], [rounded[n]])
    error = max(errors, key=lambda error: (error != error, error), default=0.0)
    excused = sum(errors[n] == 0 for n in wrong)
    problems = [] if error <= LIMIT[dtype] else [f"off by {error:.1e}, allowed are {LIMIT[dtype]:.0e}"]
    return Result(dtype, error, len(errors), excused, made.plan.communication_bytes, problems)


def _partition(case: Case, step: Any, arguments: tuple[Any, ...]) -> Any:
    import tofu.jax
    from benchmarks.shared.random_plans import random_plan

    options = {"search_seconds": 5.0, **({"replicate": "free"} if case.plan == "free" else {})}
    made = tofu.jax.partition(step, case.workers, arguments, **options)
    if case.plan != "random":
        return made
    return tofu.jax.partition(step, case.workers, arguments, plan=random_plan(made.partition, case.seeds[0]))


def list_cases(models: list[str], workers: list[int], source: str) -> list[Case]:
    """Each kind of plan on the first number of workers, then that of the search on the others."""
    first, *rest = workers
    kinds = [(first, plan) for plan in PLANS] + [(count, "searched") for count in rest]
    return [Case(model, count, plan, source) for count, plan in kinds for model in models]


def make_table(results: dict[str, tuple[Case, Result]]) -> Table:
    """A row for each example: its largest error under each plan."""
    kinds = sorted({(PLANS.index(case.plan), case.workers) for case, _ in results.values()})
    heads = [f"{count} workers{'' if plan == 0 else ', ' + PLANS[plan]}" for plan, count in kinds]
    table = Table("example", "type", *heads, "arrays", "excused", box=box.SIMPLE)
    for name in dict.fromkeys(case.model for case, _ in results.values()):
        rows = {
            (PLANS.index(case.plan), case.workers): result for case, result in results.values() if case.model == name
        }
        dtype = max(result.dtype for result in rows.values())
        counts = [str(max(getattr(result, name) for result in rows.values()) or "") for name in ("compared", "excused")]
        table.add_row(name, dtype, *(_show(rows[kind]) if kind in rows else "" for kind in kinds), *counts)
    return table


def _show(result: Result) -> str:
    return "failed" if result.error is None else f"{result.error:.1e}"


def write_document(results: dict[str, tuple[Case, Result]]) -> None:
    """Write docs/jax-examples.md."""
    console = Console(file=StringIO(), width=160)
    console.print(make_table(results))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]
    failed = [f"- {case}: {'; '.join(result.problems)}" for case, result in results.values() if result.problems]
    failures = ["", "What failed:", "", *(line.replace("\n", " ") for line in failed)] if failed else []
    DOCUMENT.write_text("\n".join([INTRODUCTION, "```text", *lines, "```", *failures, ""]))


@click.command(help=__doc__)
@click.option("--source", type=click.Path(file_okay=False), help="The folder of the repositories.")
@click.option("--models", help="Names, separated by semicolons; all if none is said.")
@click.option(
    "--workers", default="3,8,2,4", show_default=True, help="Comma separated; the first with each kind of plan."
)
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--summary", is_flag=True, help="Print what the file holds; run nothing.")
@click.option("--write", is_flag=True, help="Write the table into docs/jax-examples.md.")
def main(
    source: str | None, models: str | None, workers: str, jobs: int, path: Path, summary: bool, write: bool
) -> None:
    """Runs what is not in the file yet, and prints the table."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not summary:
        if source is None or not Path(source).is_dir():
            raise click.UsageError("--source says where the folder of the repositories is.")
        from benchmarks.jax_examples_zoo.models import load_examples

        examples = list(load_examples())
        chosen = models.split(";") if models else examples
        if unknown := [name for name in chosen if name not in examples]:
            raise click.BadParameter(f"there is no {', '.join(unknown)}; models are {'; '.join(examples)}")
        cases = list_cases(chosen, [int(count) for count in workers.split(",")], source)
        path.parent.mkdir(parents=True, exist_ok=True)
        done = read_results(path, Case, Result)
        waiting = [case for case in cases if case.key not in done or done[case.key][1].problems]
        run_cases(run, waiting, jobs, path, console, cases_of_a_process=1)
    results = read_results(path, Case, Result)
    console.print(make_table(results))
    if write:
        write_document(results)
    failed = {str(case): result.problems for case, result in results.values() if result.problems}
    for name, problems in failed.items():
        console.print(f"{name}: {'; '.join(problems)}", markup=False)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
