"""Every strategy of every described operator, run split by MXNet's own kernels and compared with the whole one: a table.

    python benchmarks/strategies.py [--dtype float32]

The cases are those of tofu/mxnet/verify/cases. A run is one strategy of one operator at one number of parts (2, 3 and 4, uneven).
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict

os.environ.setdefault("OMP_NUM_THREADS", "2")

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tofu  # noqa: F401  before MXNet
from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify.cases import load_cases, verify_case


@click.command(help=__doc__)
@click.option(
    "--dtype", default="float64", show_default=True, help="Type of the inputs; float32 runs oneDNN's kernels."
)
def main(dtype: str) -> None:
    runs: dict[tuple[str, str], int] = defaultdict(int)
    errors: dict[str, float] = defaultdict(float)
    problems: list[str] = []
    seen: set[str] = set()
    for case in track(load_cases(), "operators"):
        report = verify_case(case, dtype)
        problems += [f"{case}: {problem}" for problem in report.problems]
        for node in report.nodes:
            seen.add(node.op)
            for strategy in node.strategies:
                runs[node.op, strategy.axis] += len(strategy.parts)
                errors[node.op] = max(errors[node.op], strategy.largest_error)
    table = Table(
        "operator",
        "strategies: runs",
        "largest error of the parts",
        title=f"Every strategy of every description, {dtype}",
    )
    for op in sorted(seen):
        axes = ", ".join(f"{axis}: {count}" for (name, axis), count in sorted(runs.items()) if name == op)
        table.add_row(op, axes or "none", f"{errors[op]:.0e}" if axes else "")
    console = Console()
    console.print(table)
    console.print(
        f"{len(DESCRIPTIONS)} operators described, {len(DESCRIPTIONS.keys() & seen)} run here, {len(runs)} strategies, "
    )
    console.print(f"each run at least {min(runs.values())} times; {len(problems)} disagreements")
    for problem in problems:
        console.print(f"  {problem}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
