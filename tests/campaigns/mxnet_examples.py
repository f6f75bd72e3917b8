"""Compare one training step of other people's MXNet models over several workers with one device.

\b
    git clone --branch 1.9.1 https://github.com/apache/mxnet
    python -m tests.campaigns.mxnet_examples --source mxnet/example --jobs 2
    python -m tests.campaigns.mxnet_examples --source mxnet/example --models "lenet;ctc" --workers 4
    python -m tests.campaigns.mxnet_examples --models "resnet18_v2;bert"
    python -m tests.campaigns.mxnet_examples --summary

The models come from MXNet's folder `example/`, Gluon's model zoo, GluonCV and GluonNLP, and are built by their own code.
GluonCV and GluonNLP are optional; `.ci/gluon` installs them. Data is random. Steps are computed in float64 if MXNet has kernels for
it. `PartitionedSymbol.verify` compares every output, gradient and state, and counts the bytes that workers read.
Differences due to rounding pass. Results are kept in a file.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tests.shared.campaigns import choose_names, print_problems, read_results, run_waiting, write_document

DOCUMENT = Path(__file__).parents[2] / "docs/mxnet-examples.md"
INTRODUCTION = """# MXNet's own examples

These models are from MXNet's folder `example/`. The table compares each model on 2, 3 and 4 workers (devices that share the model) with
one device, in one training step and in inference. The numbers are errors: the largest difference in an output, gradient or state, divided
by the largest number of that tensor. Errors up to the number in the last column [count as
rounding](verify-model.md#which-differences-count-as-rounding). The column "excused" counts tensors that [cannot be
compared](verify-model.md#what-is-not-compared).

- MXNet has no float64 version of LRN (in AlexNet), Crop (in the FCNs and a generator), CTCLoss and SoftmaxActivation. These operators
  compute in float32, even in "float64" models.
- The detectors (ssd) need float32. A detector chooses among boxes with nearly equal scores, so rounding can change its results. A
  small mistake of a detector might not be found.
- The models lips and capsules are compared in float32, too. In lips, the operator InstanceNorm adds in float32.
- If AlexNet runs in float32, MXNet computes a wrong gradient of conv2_bias on one device, with an error of 3.4e-5. The reason is that the
  library oneDNN [reads uninitialized memory](limits.md#where-one-device-is-wrong) for LRN (local response normalisation). Without oneDNN
  (`MXNET_MKLDNN_ENABLED=0`), one device and the workers differ by 1.6e-6.

`python -m tests.campaigns.mxnet_examples --source mxnet/example --write` writes this page.
"""
RESULTS = Path("demo-output/mxnet-examples.jsonl")
LIMIT = {"float64": 1e-8, "float32": 1e-4}  # relative to the largest number of each array


@dataclass(frozen=True)
class MxnetExampleCase:
    model: str
    workers: int
    source: str

    @property
    def key(self) -> str:
        return f"{self.model}, {self.workers} workers"

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True)
class MxnetExampleResult:
    dtype: str = ""
    error: float | None = None
    explained: float | None = None
    compared: int = 0
    excused: int = 0
    problems: list[str] = field(default_factory=list)


def run(case: MxnetExampleCase) -> tuple[MxnetExampleCase, MxnetExampleResult]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")  # the examples are older than their libraries
    import tofu

    example = load_examples()[case.model]
    try:
        symbol = example.build_symbol(Path(case.source))
        found = tofu.partition(symbol, case.workers).verify(values=dict(example.values) or None, **example.shapes)
    except Exception as error:
        return case, MxnetExampleResult(problems=[f"{type(error).__name__}: {str(error).strip()[:400]}"])
    error = 0.0 if found.worst is None else found.worst.error
    problems = [] if found.agrees and (error <= LIMIT[found.dtype] or error <= found.tolerance) else [str(found)[:400]]
    compared = len(found.training) + len(found.inference)
    return case, MxnetExampleResult(found.dtype, error, found.tolerance, compared, len(found.excused), problems)


def load_examples() -> dict[str, Any]:
    import tofu  # noqa: F401  makes MXNet importable
    from tests.campaigns.example_zoo.gluon_models import GLUON_MODELS
    from tests.campaigns.example_zoo.models import EXAMPLES

    return EXAMPLES | GLUON_MODELS


def make_table(results: dict[str, tuple[MxnetExampleCase, MxnetExampleResult]]) -> Table:
    counts = sorted({case.workers for case, _ in results.values()})
    columns = "model", "type", *(f"{count} workers" for count in counts), "tensors", "excused", "of a rounding"
    table = Table(*columns, box=box.SIMPLE)
    for name in dict.fromkeys(case.model for case, _ in results.values()):
        rows = {case.workers: result for case, result in results.values() if case.model == name}
        some = next(iter(rows.values()))
        errors = [_show(rows[count]) if count in rows else "" for count in counts]
        explained = max(result.explained or 0 for result in rows.values())
        table.add_row(name, some.dtype, *errors, str(some.compared), str(some.excused or ""), f"{explained:.0e}")
    return table


def _show(result: MxnetExampleResult) -> str:
    return "failed" if result.error is None else f"{result.error:.1e}"


@click.command(help=__doc__)
@click.option("--source", type=click.Path(file_okay=False), help="MXNet's folder example/, of 1.9.1.")
@click.option("--models", help="Names, separated by semicolons. By default, all that can be built.")
@click.option("--workers", default="2,3,4", show_default=True, help="Numbers of workers, separated by commas.")
@click.option("--jobs", default=1, show_default=True, help="Processes at a time.")
@click.option("--results", "path", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--summary", is_flag=True, help="Only print the results in the file.")
@click.option("--write", is_flag=True, help="Write the table into docs/mxnet-examples.md.")
def main(
    source: str | None, models: str | None, workers: str, jobs: int, path: Path, summary: bool, write: bool
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not summary:
        examples = load_examples()
        chosen = choose_names(models, examples, ";")
        if any(examples[name].path for name in chosen) and (source is None or not Path(source).is_dir()):
            raise click.UsageError("--source must name MXNet's folder example/, of version 1.9.1.")
        installed = [name for name in chosen if models or find_spec(examples[name].library)]
        cases = [MxnetExampleCase(name, int(count), source or "") for name in installed for count in workers.split(",")]
        run_waiting(run, cases, MxnetExampleResult, jobs, path, console, cases_of_a_process=12)
    results = read_results(path, MxnetExampleCase, MxnetExampleResult)
    table = make_table(results)
    console.print(table)
    if write:
        write_document(DOCUMENT, INTRODUCTION, table)
    sys.exit(not print_problems(results, console))


if __name__ == "__main__":
    main()
