"""`python -m tofu verify MODEL`: a model on several workers, held against one device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import click
import numpy as np

from tofu.command_line.planning_options import FILE
from tofu.command_line.requests import ModelRequest, takes_model
from tofu.errors import TofuError

TYPES = ("float64", "float32")


@click.command("verify-model")
@takes_model(needs_devices=True)
@click.option("--inference", is_flag=True, help="MXNet: compare the forward graph alone.")
@click.option(
    "--dtype",
    type=click.Choice(TYPES),
    help="Left out: float64; where MXNet has no kernels for it, float32; where a step does not take it, its own types.",
)
@click.option(
    "--input",
    "path",
    type=FILE,
    help="MXNet: an .npz file with numbers of inputs, parameters or states, by name; the others are drawn.",
)
@click.option(
    "--grad-req",
    type=click.Choice(("write", "add")),
    default="write",
    show_default=True,
    help="MXNet: of all parameters.",
)
@click.option("--seed", default=0, show_default=True, help="Of what is drawn.")
def verify_model(
    request: ModelRequest, inference: bool, dtype: str | None, path: Path | None, grad_req: str, seed: int
) -> None:
    """Run MODEL on one device and on --workers, and compare.

    Of an MXNet symbol every output, gradient and auxiliary state is compared. Numbers are drawn where --input has none: labels and tokens
    within the bounds of what reads them. A batch that does not fit into the memory of this machine is halved until it does.

    Of a step for JAX every result is compared. Numbers are drawn for arguments that are shapes: whole numbers from 0 to 7. Where there are
    too few devices, those of the CPU stand in for them.

    The exit status is 1 where a number differs, or the bytes of a fetch.

    \b
    Examples
        python -m tofu verify resnet-symbol.json --shape data:8,3,64,64 --workers 4
        python -m tofu verify lm-symbol.json --shape data:32,35 --workers 8 --plan plan.json
        python -m tofu verify ssd-symbol.json --shape data:4,3,128,128 --shape label:4,3,5 --input batch.npz
        python -m tofu verify train.py:step --args small_args --workers 4
    """  # noqa: D301  click reads the escape
    values = {} if path is None else _read_values(path)
    agreement = request.verify(dtype, seed, inference=inference, values=values, grad_req=grad_req)
    click.echo(str(agreement))
    if not agreement.agrees:
        raise SystemExit(1)


def _read_values(path: Path) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, BadZipFile, TypeError) as error:
        raise TofuError(
            f"--input {path} is no .npz file of arrays, as numpy.savez(path, data=...) writes it: {error}."
        ) from error
