"""Build a partitioned symbol from a model and the user's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tofu.mxnet.frontend.inference import check_names
from tofu.mxnet.frontend.refusals import refuse_broken, refuse_unpartitionable
from tofu.mxnet.runtime.symbol.arguments import (
    check_contexts,
    check_symbol,
    read_settings,
    read_shapes,
    warn_of_sparse_storage,
)
from tofu.mxnet.runtime.symbol.devices import resolve_contexts
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol


def make_symbol(
    symbol: Any,
    ngpus: int | None,
    contexts: Sequence[Any] | None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    option_names: Sequence[str] = (),
    **options: Any,
) -> PartitionedSymbol:
    """Check the arguments of `tofu.partition`, and return the partitioned symbol.

    If `shapes` are passed, the model is planned at once. `option_names` are all options, for errors about unknown
    names.
    """
    check_symbol(symbol)
    if isinstance(symbol, PartitionedSymbol):
        symbol = symbol.whole
    refuse_broken(symbol)
    inputs = read_shapes(symbol, shapes or {}, option_names)
    contexts = check_contexts(contexts)
    settings = read_settings(ngpus, contexts, **options)
    partitioned = PartitionedSymbol(symbol, settings, resolve_contexts(settings.workers, contexts))
    if settings.workers > 1:
        refuse_unpartitionable(symbol)
        warn_of_sparse_storage(symbol)
    if inputs:
        partitioned.plan_for(inputs)  # checks the names first
    else:
        check_names(symbol, {})
    return partitioned
