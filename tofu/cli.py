"""The command line: plans from shapes alone, and what the operator descriptions cover.

Plain functions of `tofu.partition` and `tofu.report` behind click; an error that the user can mend is one message and
exit code 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import mxnet as mx
from rich.table import Table

from tofu.errors import TofuError
from tofu.graph.mxnet import check_names, find_labels, infer_arguments
from tofu.partition import Partition, Settings, compile_partition
from tofu.report.plan_table import make_console, print_partition
from tofu.runtime.files import write_atomically
from tofu.tdl import Description, registered


class _Commands(click.Group):
    """Commands whose TofuErrors are shown as a message, without a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TofuError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tofu")
def main() -> None:
    """Tofu trains a model that was written for one device on several.

    These commands look at models and operators; nothing is trained. To train, add one line to your script:

    \b
        symbol = tofu.partition(symbol, ngpus=4)
    """  # noqa: D301  click reads the escape


@main.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--shape", "shapes", multiple=True, required=True, metavar="NAME:D0,D1,...", help="Shape of an input.")
@click.option("--workers", default=8, show_default=True, help="Number of devices.")
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="NAME=CHOICE",
    help="Pin a part of the plan: a tensor's dimension or an operator's axis, or one for each step, separated by "
    "commas; '-' is replicated, '...' is free.",
)
@click.option("--inference", is_flag=True, help="Plan the forward graph alone.")
@click.option("--rows", default=60, show_default=True, help="Longest table of layers; 0 shows all.")
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan to this file."
)
def plan(
    model: Path,
    shapes: tuple[str, ...],
    workers: int,
    hints: tuple[str, ...],
    inference: bool,
    rows: int,
    json_path: Path | None,
) -> None:
    """Plan MODEL, a symbol saved by MXNet: how each layer is split, what moves, what each worker holds.

    No parameters are needed and no memory of the model is allocated: shapes are enough.

    \b
    Examples
        python -m tofu plan resnet-symbol.json --shape data:64,3,224,224
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 4 --hint fc1_weight=0 --hint conv2=co
        python -m tofu plan lenet-symbol.json --shape data:64,1,28,28 --workers 6 --hint conv1=b,co --json plan.json

    The file written by --json is what tofu.partition(symbol, plan=open("plan.json").read()) applies.
    """  # noqa: D301  click reads the escape
    partition = plan_file(model, read_shapes(shapes), workers, read_hints(hints), for_training=not inference)
    console = make_console()
    print_partition(console, partition, rows or None)
    if json_path is not None:
        write_atomically(str(json_path), partition.plan.to_json() + "\n")
        console.print(f"\nThe plan is in {json_path}.")


def plan_file(
    model: Path, shapes: Mapping[str, tuple[int, ...]], workers: int, hints: Mapping[str, Any], *, for_training: bool
) -> Partition:
    """The partition of a saved symbol, as it is trained: every argument but the inputs is learned."""
    if workers < 2:
        raise TofuError(f"--workers is {workers}; there is something to plan from 2 workers on.")
    symbol = _load_symbol(model)
    check_names(symbol, shapes)
    labels = find_labels(symbol)
    learned = [name for name in symbol.list_arguments() if name not in shapes and name not in labels]
    known, _ = infer_arguments(symbol, shapes, {})
    inputs = {name: known.get(name, shape) for name, shape in {**dict.fromkeys(labels, ()), **shapes}.items()}
    settings = Settings(workers, hints or None, for_training=for_training)
    return compile_partition(symbol, inputs, settings, differentiated=learned, updated=learned)


def _load_symbol(path: Path) -> Any:
    """The model in a file; for a partitioned one, the model as it was."""
    try:
        symbol = mx.sym.load(str(path))
    except (mx.base.MXNetError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise TofuError(
            f"{path} is not a symbol that MXNet can read ({reason}). Save one with symbol.save(...)."
        ) from error
    return getattr(symbol, "whole", symbol)


def read_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`data:64,3,224,224` -> {"data": (64, 3, 224, 224)}; TofuError for anything else."""
    shapes = {}
    for text in texts:
        name, _, extents = text.rpartition(":")
        try:
            shapes[name] = tuple(int(extent) for extent in extents.strip("()").rstrip(",").split(","))
        except ValueError as error:
            raise TofuError(f"--shape {text!r} is not NAME:D0,D1,..., for example data:64,3,224,224.") from error
        if not name:
            raise TofuError(f"--shape {text!r} names no input, for example data:64,3,224,224.")
    return shapes


def read_hints(texts: Sequence[str]) -> dict[str, Any]:
    """`fc1_weight=0` -> {"fc1_weight": 0}, `conv2=b,co` -> {"conv2": ("b", "co")}; TofuError for anything else."""
    hints: dict[str, Any] = {}
    for text in texts:
        name, equals, choice = text.partition("=")
        if not name or not equals or not choice:
            raise TofuError(f"--hint {text!r} is not NAME=CHOICE, for example fc1_weight=0 or conv2=co.")
        steps = tuple(_read_choice(step.strip()) for step in choice.split(","))
        hints[name] = steps if len(steps) > 1 else steps[0]
    return hints


def _read_choice(text: str) -> Any:
    special = {"-": None, "...": Ellipsis}
    return special[text] if text in special else int(text) if text.isdigit() else text


@main.command()
@click.argument("names", nargs=-1)
def ops(names: tuple[str, ...]) -> None:
    """List the operators that are described, and so can be split; with NAMES, those whose names contain one of them.

    \b
    Examples
        python -m tofu ops
        python -m tofu ops conv pool
    """  # noqa: D301  click reads the escape
    descriptions = {
        name: description
        for name, description in sorted(registered().items(), key=lambda item: item[0].lower())
        if not names or any(part.lower() in name.lower() for part in names)
    }
    if not descriptions:
        raise TofuError(f"No operator that is described has {' or '.join(names)} in its name.")
    console = make_console()
    console.print(_operator_table(descriptions))
    console.print(
        f"\n{len(descriptions)} operators described in {len({d.place.file for d in descriptions.values()})} files."
    )


def _operator_table(descriptions: Mapping[str, Description]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("operator", "tensors", "rewritten for each worker", "described in"):
        table.add_column(title, no_wrap=title == "operator")
    for name, description in descriptions.items():
        table.add_row(name, _list_tensors(description), ", ".join(description.bound), str(description.place))
    return table


def _list_tensors(description: Description) -> str:
    required = len(description.tensors) - description.optional
    names = [name if i < required else f"{name}?" for i, name in enumerate(description.tensors)]
    return ", ".join([*names, *([f"*{description.star}"] if description.star else [])])
