"""The models of MXNet's own examples over several workers: one training step against one device.

    git clone --branch 1.9.1 https://github.com/apache/mxnet
    python -m tests.campaigns.mxnet_examples --source mxnet/example --jobs 2
    python -m tests.campaigns.mxnet_examples --source mxnet/example --models "lenet;ctc" --workers 4
    python -m tests.campaigns.mxnet_examples --summary

The models are built by the examples' own code; data is drawn. Each step is computed in float64 where MXNet has kernels for it. Every
output, gradient and state is compared, and the bytes that workers read are counted (`PartitionedSymbol.verify`). A network that makes as
much of a rounding on one device is not held against Tofu. Results are kept in a file.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tests.shared.campaigns import choose_names, print_problems, read_results, run_waiting, write_document

DOCUMENT = Path(__file__).parents[2] / "docs/mxnet-examples.md"
INTRODUCTION = """# MXNet's own examples

The models of MXNet's folder `example/`, built by the examples' own code, over several workers against one device: the largest error of
an output, a gradient or a state in one training step and in inference, relative to the largest number of its tensor. "of a rounding" is
what a rounding of its numbers makes of the model on one device, at least 1e-10.

Operators that MXNet has in float32 alone [compute between casts](verify-model.md#how-near-is-near-enough) in float64 models: LRN in
AlexNet, Crop in the FCNs and in a generator, CTCLoss and SoftmaxActivation. Detectors have more of them, and choose among boxes by scores
that are nearly equal, so their comparison finds large mistakes alone. InstanceNorm adds in float32, so lips is compared in that, as are
the capsules.

In float32 (`verify-model --dtype float32`) AlexNet on one device is itself wrong, by 3.4e-5 in conv2_bias: under oneDNN its gradient of
LRN reads memory that nobody has written, as [the limits](limits.md#where-one-device-is-wrong) say. Workers differ by 1.6e-6 from one
device without oneDNN (`MXNET_MKLDNN_ENABLED=0`), and by 1.9e-6 from one that is given that gradient in plain order.

`python -m tests.campaigns.mxnet_examples --source mxnet/example --write` makes this page.
"""
RESULTS = Path("demo-output/mxnet-examples.jsonl")
LIMIT = {"float64": 1e-8, "float32": 1e-4}  # of the largest number of each array


@dataclass(frozen=True)
class Case:
    """One model on some workers."""

    model: str
    workers: int
    source: str
    seeds: tuple[int, ...] = (0,)

    @property
    def key(self) -> str:
        """What a result is found by."""
        return f"{self.model}, {self.workers} workers"

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True)
class Result:
    """The type of the numbers, the largest error and its tensor, what a rounding explains, how many tensors were compared and excused."""

    dtype: str = ""
    error: float | None = None
    tensor: str = ""
    explained: float | None = None
    compared: int = 0
    excused: int = 0
    problems: list[str] = field(default_factory=list)


def run(case: Case) -> tuple[Case, Result]:
    """Build the model, and compare a step of it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")  # the examples are older than their libraries are
    import tofu
    from tests.campaigns.example_zoo.loading import load_definitions
    from tests.campaigns.example_zoo.models import EXAMPLES

    example = EXAMPLES[case.model]
    try:
        symbol = example.symbol(load_definitions(Path(case.source) / example.path))
        found = tofu.partition(symbol, case.workers).verify(**example.shapes)
    except Exception as error:
        return case, Result(problems=[f"{type(error).__name__}: {str(error).strip()[:400]}"])
    worst = found.worst
    error, tensor = (0.0, "") if worst is None else (worst.error, worst.name)
    problems = [] if found.agrees and (error <= LIMIT[found.dtype] or error <= found.tolerance) else [str(found)[:400]]
    compared = len(found.training) + len(found.inference)
    return case, Result(found.dtype, error, tensor, found.tolerance, compared, len(found.excused), problems)


def make_table(results: dict[str, tuple[Case, Result]]) -> Table:
    """A row for each model: its largest error at each number of workers."""
    counts = sorted({case.workers for case, _ in results.values()})
    table = Table(
        "model",
        "type",
        *(f"{count} workers" for count in counts),
        "tensors",
        "excused",
        "of a rounding",
        box=box.SIMPLE,
    )
    for name in dict.fromkeys(case.model for case, _ in results.values()):
        rows = {case.workers: result for case, result in results.values() if case.model == name}
        some = next(iter(rows.values()))
        errors = [_show(rows[count]) if count in rows else "" for count in counts]
        explained = max(result.explained or 0 for result in rows.values())
        table.add_row(name, some.dtype, *errors, str(some.compared), str(some.excused or ""), f"{explained:.0e}")
    return table


def _show(result: Result) -> str:
    return "failed" if result.error is None else f"{result.error:.1e}"


@click.command(help=__doc__)
@click.option("--source", type=click.Path(file_okay=False), help="MXNet's folder example/, of 1.9.1.")
@click.option("--models", help="Names, separated by semicolons; all if none is said.")
@click.option("--workers", default="2,3,4", show_default=True, help="Numbers of workers, comma separated.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--summary", is_flag=True, help="Print what the file holds; run nothing.")
@click.option("--write", is_flag=True, help="Write the table into docs/mxnet-examples.md.")
def main(
    source: str | None, models: str | None, workers: str, jobs: int, path: Path, summary: bool, write: bool
) -> None:
    """Runs what is not in the file yet, and prints the table."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not summary:
        if source is None or not Path(source).is_dir():
            raise click.UsageError("--source says where MXNet's folder example/ is, of version 1.9.1.")
        import tofu  # noqa: F401  makes MXNet importable
        from tests.campaigns.example_zoo.models import EXAMPLES

        chosen = choose_names(models, EXAMPLES, ";")
        cases = [Case(name, int(count), source) for name in chosen for count in workers.split(",")]
        run_waiting(run, cases, Result, jobs, path, console, cases_of_a_process=12)
    results = read_results(path, Case, Result)
    table = make_table(results)
    console.print(table)
    if write:
        write_document(DOCUMENT, INTRODUCTION, table)
    sys.exit(not print_problems(results, console))


if __name__ == "__main__":
    main()
