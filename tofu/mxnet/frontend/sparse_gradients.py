"""Find the gradients that MXNet stores as row_sparse (only non-zero rows). Lazy optimizers skip all other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tofu import _mxnet
from tofu.mxnet.frontend.read_symbol import wrap_symbol
from tofu.mxnet.frontend.storage import STORAGES, has_sparse_storage


def list_sparse_gradients(symbol: Any) -> set[str]:
    """Return the names of variables whose gradients MXNet would store as row_sparse (only non-zero rows)."""
    if not has_sparse_storage(symbol):
        return set()
    names = symbol.list_arguments()
    try:
        return _infer_sparse_gradients(symbol, names)
    except RuntimeError:  # some arguments have no gradient
        return set().union(*(_try_sparse_gradient(symbol, name) for name in names))


def _infer_sparse_gradients(symbol: Any, names: Sequence[str]) -> set[str]:
    training = wrap_symbol(_mxnet.training_graph(symbol.handle.value, names))
    storages = _mxnet.infer_output_storage(training.handle.value)[-len(names) :]
    return {name for name, storage in zip(names, storages, strict=True) if STORAGES.get(str(storage)) == "row_sparse"}


def _try_sparse_gradient(symbol: Any, name: str) -> set[str]:
    try:
        return _infer_sparse_gradients(symbol, [name])
    except RuntimeError:
        return set()
