"""Load models (MXNet symbols) from files.

After `import tofu`, MXNet's own functions also load partitioned models. Otherwise, `Module.load` would run a
partitioned model on one device by mistake.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import wraps
from glob import escape, glob
from typing import Any

import mxnet as mx

from tofu.errors import TofuError, raise_together
from tofu.imports.mxnet import MXNET_VERSION
from tofu.mxnet.frontend.refusals import refuse_broken
from tofu.mxnet.frontend.symbol_text import read_model
from tofu.mxnet.runtime.executor.failures import summarise
from tofu.mxnet.runtime.symbol.partition_text import ATTRIBUTE, load_whole
from tofu.mxnet.runtime.symbol.partitioned_symbol import load_json as read_json
from tofu.validation import read_text

NUMPY_SHAPES = "is_np_shape"
"""Attribute of a saved graph: True if NumPy's rules for shapes were on (`mx.util.is_np_shape`)."""


def install_loaders() -> None:
    """Make `mx.sym.load` and `mx.sym.load_json` accept partitioned symbols."""
    for module in (mx.symbol, mx.symbol.symbol):
        module.load_json = _load_text
        module.load = _load_file


@wraps(load_whole)
def _load_text(json_str: str) -> Any:
    has_partition = isinstance(json_str, str) and f'"{ATTRIBUTE}"' in json_str
    return read_json(json_str) if has_partition else load_whole(json_str)


def read_symbol(path: str) -> Any:
    """Read a symbol, partitioned or not, from a file. Raise TofuError for a damaged file."""
    saved_version = MXNET_VERSION
    try:
        text = read_text(path)
        saved_version = _find_version(read_model(text))  # MXNet's own errors name neither the file nor the mistake
        symbol = mx.sym.load_json(text)
        refuse_broken(symbol)
    except (OSError, ValueError, mx.base.MXNetError) as error:
        reason = str(error) if isinstance(error, (OSError, ValueError)) else summarise(error)
        remedy = "Save one with symbol.save(...)."
        if isinstance(error, mx.base.MXNetError):  # the file has an operator or argument that this MXNet lacks
            is_same = saved_version == MXNET_VERSION
            versions = "" if is_same else f"It was saved by MXNet {saved_version}, and this is {MXNET_VERSION}. "
            remedy = (
                f"{versions}Load the library with the missing operator (mx.library.load), or build the model with operators and arguments "
                f"of MXNet {MXNET_VERSION}."
            )
        raise TofuError(f"{path} is not a symbol that MXNet can read ({reason}). {remedy}") from error
    return symbol


def _find_version(model: dict[str, Any]) -> str:
    typed_number = model.get("attrs", {}).get("mxnet_version")
    number = typed_number[1] if isinstance(typed_number, list) and len(typed_number) == 2 else None
    if isinstance(number, bool) or not isinstance(number, int):
        return MXNET_VERSION
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def shapes_as_saved(path: str) -> Any:
    """In a `with` block, set MXNet's option for NumPy shapes to its value in a saved model."""
    attributes = read_model(read_text(path)).get("attrs", {})
    is_marked = isinstance(attributes, dict) and attributes.get(NUMPY_SHAPES) == ["int", 1]
    return mx.util.np_shape(True if is_marked else None)


def check_checkpoint(prefix: str, epoch: int, kinds: Sequence[str]) -> None:
    """Raise TofuError if a file of a checkpoint is missing. `kinds` lists suffixes such as "params"."""
    paths = [f"{prefix}-symbol.json", *(f"{prefix}-{epoch:04d}.{kind}" for kind in kinds)]
    saved_epochs = sorted(
        path[-11:-7].lstrip("0") or "0" for path in glob(f"{escape(prefix)}-[0-9][0-9][0-9][0-9].params")
    )
    headline = (
        f"The checkpoint {prefix!r} has no epoch {epoch}; those at {', '.join(saved_epochs)} are there. These files are missing:"
        if saved_epochs and os.path.exists(paths[0])
        else f"There is no checkpoint {prefix!r}; module.save_checkpoint(prefix, epoch) writes one. These files are missing:"
    )
    raise_together(TofuError, headline, [path for path in paths if not os.path.exists(path)])


_load_whole_file = mx.symbol.symbol.load


@wraps(_load_whole_file)
def _load_file(fname: str) -> Any:
    try:
        text = read_text(fname) if isinstance(fname, str) else ""
    except (OSError, ValueError):
        text = ""  # MXNet reports the problem, or reads the file if it is of another kind
    return read_json(text) if f'"{ATTRIBUTE}"' in text else _load_whole_file(fname)
