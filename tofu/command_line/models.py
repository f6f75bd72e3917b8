"""`python -m tofu verify-model`: a model on several workers, held against one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import click
import numpy as np

from tofu.command_line.planning_options import FILE
from tofu.command_line.requests import takes_model
from tofu.compare.agreement import Agreement
from tofu.engines import MXNET
from tofu.errors import TofuError
from tofu.mxnet.runtime.symbol.arguments import GRAD_REQS
from tofu.mxnet.runtime.symbol.devices import resolve_contexts
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.runtime.symbol.verification import TYPES


@click.command("verify-model")
@takes_model(only=MXNET)
@click.option("--inference", is_flag=True, help="Compare the forward graph alone.")
@click.option(
    "--dtype", type=click.Choice(TYPES), help="Left out: float64, and float32 where MXNet has no kernels for it."
)
@click.option(
    "--input",
    "path",
    type=FILE,
    help="An .npz file with numbers of inputs, parameters or states, by name; the others are drawn.",
)
@click.option(
    "--grad-req", type=click.Choice(GRAD_REQS[:2]), default="write", show_default=True, help="Of all parameters."
)
@click.option("--seed", default=0, show_default=True, help="Of what is drawn.")
def verify_model(request: Any, inference: bool, dtype: str | None, path: Path | None, grad_req: str, seed: int) -> None:
    """Run MODEL on one device and on --workers, and compare every output, gradient and auxiliary state.

    Numbers are drawn where --input has none: labels and tokens within the bounds of what reads them. A batch that does not fit into the
    memory of this machine is halved until it does. The exit status is 1 where a number or the bytes of a fetch differ.

    \b
    Examples
        python -m tofu verify-model resnet-symbol.json --shape data:8,3,64,64 --workers 4
        python -m tofu verify-model lm-symbol.json --shape data:32,35 --workers 8 --plan plan.json
        python -m tofu verify-model ssd-symbol.json --shape data:4,3,128,128 --shape label:4,3,5 --input batch.npz
    """  # noqa: D301  click reads the escape
    settings = replace(request.settings, for_training=not inference)
    symbol = PartitionedSymbol(request.symbol, settings, resolve_contexts(settings.workers))
    values = {} if path is None else _read_values(path)
    agreement: Agreement = symbol.verify(values=values, grad_req=grad_req, dtype=dtype, seed=seed, **request.shapes)
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
