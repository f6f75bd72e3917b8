"""`python -m tofu verify MODEL`: run a model on several workers and on one device, and compare the results."""

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
@click.option("--inference", is_flag=True, help="MXNet: compare only the forward graph.")
@click.option(
    "--dtype",
    type=click.Choice(TYPES),
    help="Type of the numbers. Default: float64. If MXNet has no float64 kernels for the model, float32. If a JAX step rejects "
    "float64, the types of its arguments.",
)
@click.option(
    "--input",
    "path",
    type=FILE,
    help="MXNet: .npz file with inputs, parameters or states by name. All others get random numbers.",
)
@click.option(
    "--grad-req",
    type=click.Choice(("write", "add")),
    default="write",
    show_default=True,
    help="MXNet: whether gradients of parameters overwrite their arrays or are added to them, like grad_req= of bind.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of random numbers.")
def verify_model(
    model_request: ModelRequest, inference: bool, dtype: str | None, path: Path | None, grad_req: str, seed: int
) -> None:
    """Run MODEL on several workers and on one device, and compare.

    For an MXNet symbol, every output, gradient and auxiliary state is compared. Inputs that are not in the file
    of --input get random numbers, and labels and tokens get numbers of existing classes and words. If the batch
    exceeds the memory of this machine, it is halved until it fits.

    For a JAX step, every result is compared. If the file has only the shape of an argument, the argument gets random
    numbers; integers are from 0 to 7. If this machine has too few devices, virtual CPU devices take their place.

    The exit status is 1 if results differ, or if workers transfer more or fewer bytes than planned.

    \b
    Examples:
        python -m tofu verify resnet-symbol.json --shape data:8,3,64,64 --workers 4
        python -m tofu verify lm-symbol.json --shape data:32,35 --workers 8 --plan plan.json
        python -m tofu verify ssd-symbol.json --shape data:4,3,128,128 --shape label:4,3,5 --input batch.npz
        python -m tofu verify train.py:step --args small_args --workers 4
    """  # noqa: D301  click reads the escape
    values = {} if path is None else _read_values(path)
    agreement = model_request.verify(dtype, seed, inference=inference, values=values, grad_req=grad_req)
    click.echo(str(agreement))
    if not agreement.agrees:
        raise SystemExit(1)


def _read_values(path: Path) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, BadZipFile, TypeError) as error:
        raise TofuError(
            f"--input {path} is not an .npz file of arrays, as numpy.savez(path, data=...) writes: {error}."
        ) from error
