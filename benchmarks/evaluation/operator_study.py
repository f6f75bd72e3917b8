"""Section 4.1 of the paper: which operators TDL can describe, of TensorFlow's and of MXNet's.

    python -m benchmarks.evaluation.operator_study

Reads how each of TensorFlow's operators is described (`tensorflow/described.toml`), holds every line against the descriptions, and writes
docs/evaluation/operators.csv. TensorFlow is not needed. MXNet's operators are counted from what `python -m tofu verify --record` wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap

import click
import tomli

from benchmarks.evaluation.tables import write_table
from benchmarks.evaluation.tensorflow.check import (
    DATA_DEPENDENT,
    DESCRIBABLE,
    DYNAMIC_SHAPE,
    ELEMENTWISE,
    HERE,
    OPAQUE,
    SPARSE,
    Row,
    analyse_here,
    find_problems,
)
from benchmarks.evaluation.tensorflow.kernels import read_compared
from benchmarks.evaluation.tensorflow.registered import FOLDER, Registered, read_registered
from tdl_ops.mxnet import DESCRIPTIONS as OF_MXNET
from tests.shared.commits import name_tree, note_commit
from tofu.mxnet.verify.coverage import PAPER, count_coverage, read_operator_sets
from tofu.mxnet.verify.record import read_record

VERSION, USED = "1.3.0", "1.8.0"  # of the same month as MXNet 0.11; what the paper trained with
PAPER_TENSORFLOW = {"total": 341, "described": 257, ELEMENTWISE: 140, OPAQUE: 22}
SET = "mxnet_0_11"
OURS = "ours"
TABLE = "operators.csv"
WIDTH = 140
TITLES = {
    "total": "operators",
    "described": "described",
    ELEMENTWISE: "of these, element-wise",
    OPAQUE: "of these, by an opaque function",
    "reduced": "of these, with output reductions",
    SPARSE: "not described: sparse tensors",
    DYNAMIC_SHAPE: "not described: dynamic output shapes",
    DATA_DEPENDENT: "not described: data-dependent indexing",
    OURS: "described by Tofu's TDL",
}


@dataclass(frozen=True)
class Studied:
    """An operator of TensorFlow as it stands in the table."""

    name: str
    module: str
    kind: str
    described_by: str


def read_rows() -> list[Row]:
    """A row for each operator that is counted."""
    tables: Mapping[str, Mapping[str, str]] = tomli.loads((FOLDER / "described.toml").read_text())
    return list(join_tables(tables, {one.name: one for one in read_registered(VERSION) if one.is_counted}))


def join_tables(tables: Mapping[str, Mapping[str, str]], counted: Mapping[str, Registered]) -> Iterator[Row]:
    """The lines of all tables. A counted operator that has no line or two is an error, and so is the line of another one."""
    times = Counter(name for table in tables.values() for name in table)
    if wrong := sorted(name for name in {*times, *counted} if times[name] != 1 or name not in counted):
        raise ValueError(
            f"every operator that is counted has one line in described.toml, and no other has; not so {wrong}"
        )
    for kind, table in tables.items():
        for name, described_by in table.items():
            yield Row(name, counted[name].module, counted[name].inputs, kind, described_by)


def count(rows: Sequence[Studied]) -> dict[str, int]:
    """How many operators of TensorFlow there are, how many the paper's TDL and ours can describe, and how many there are of each kind."""
    kinds = Counter(row.kind for row in rows)
    described = sum(kinds[kind] for kind in DESCRIBABLE)
    return {"total": len(rows), "described": described, **kinds, OURS: sum(bool(row.described_by) for row in rows)}


def list_study(rows: Sequence[Studied]) -> Iterator[str]:
    """The section of the page."""
    coverage = count_coverage(read_operator_sets()[SET], read_record())
    columns = PAPER_TENSORFLOW, count(rows), PAPER, {**asdict(coverage), OURS: coverage.described}
    yield from ("", "## Section 4.1: operators that TDL can describe", "")
    yield f"| | TensorFlow, paper | {VERSION}, reconstructed | MXNet 0.11, paper | reconstructed |"
    yield "|---|---|---|---|---|"
    for key, title in TITLES.items():
        yield f"| {title} | {' | '.join(str(column.get(key, '')) for column in columns)} |"
    for paragraph in (_explain_lists(), _explain_kinds(rows)):
        yield from ("", *wrap(paragraph, WIDTH, break_on_hyphens=False))


def _explain_lists() -> str:
    registered, later = read_registered(VERSION), read_registered(USED)
    counted = [one for one in registered if one.is_counted]
    broadcast = [name for name in read_operator_sets()[SET] if name.startswith("broadcast_")]
    return (
        "The paper does not say which operators it counted: both lists here are reconstructions. "
        f"TensorFlow's has, of the {len(registered)} operators that version {VERSION} registers, of the same month as MXNet 0.11, those "
        f"that compute tensors from tensors: of the modules {', '.join(sorted({one.module for one in counted}))}; without what is "
        "deprecated or internal, works on handles, files or texts, or holds what it is given (variables, placeholders, constants), and "
        "without gradients, for MXNet's 139 are forward operators. "
        f"With gradients there would be {sum(one.computes_tensors for one in registered)}. The same rule takes "
        f"{sum(one.is_counted for one in later)} of {USED}, with which the paper trained. "
        "MXNet's are those that `python -m tofu ops` counts, where operators that broadcast are not called element-wise: there "
        f"are {sum(len(OF_MXNET[name].tensors) == 2 for name in broadcast)}."
    )


def _explain_kinds(rows: Sequence[Studied]) -> str:
    engines = Counter(row.described_by.partition(":")[0] for row in rows)
    compared = read_compared()
    whole = [row.name for row in rows if row.described_by == HERE and not analyse_here(row.name).axes]
    factored = [row for row in rows if row.kind == OPAQUE and row.module in ("linalg", "spectral")]
    return (
        f"[{TABLE}]({TABLE}) has a line for each of TensorFlow's. {engines['mxnet']} are computed by descriptions of MXNet's operators, "
        f"which were compared with MXNet's kernels, {engines['jax']} by those of JAX's primitives, and {engines[HERE]} by descriptions "
        f"that were written for this table. Of the latter {len(compared)} give the numbers of the kernels of TensorFlow "
        f"{', '.join(sorted({one.tensorflow for one in compared}))}, which still has them (`benchmarks.evaluation.tensorflow.kernels`); "
        "the others are random, opaque, or have no kernel there to compare with, and are analysed alone. "
        f"Of all {engines[HERE]}, {len(whole)} offer no way to be split at the sizes tried: {', '.join(whole)}. "
        f"Of the opaque ones {len(factored)} are factorizations and Fourier transforms; among the others are colours, resized planes, "
        "running totals, places of extremes, and draws that all cells share. "
        "Numbers that say how an operator works (a shape, a permutation) count as attributes, as they are in MXNet. "
        "Data-dependent is what reads or writes a cell whose place depends on numbers. The paper finds no such operator in MXNet, "
        "which has Embedding and take, so it must have drawn that line elsewhere."
    )


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evaluation"), show_default=True)
def main(output: Path) -> None:
    tree, rows = name_tree(), read_rows()
    if problems := [problem for row in rows for problem in find_problems(row)]:
        raise click.ClickException("\n".join(problems))
    output.mkdir(parents=True, exist_ok=True)
    studied = [Studied(row.name, row.module, row.kind, row.described_by) for row in rows]
    write_table(output / TABLE, studied)
    note_commit(output, "Section 4.1", tree)
    click.echo("\n".join(list_study(studied)))


if __name__ == "__main__":
    main()
