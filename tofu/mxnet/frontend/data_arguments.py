"""Find out which arguments of a model are data, and which are parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu.mxnet.frontend.inference import PARAMETER_ENDINGS, Shapes

MOST_INFERENCES = 32


def find_data(symbol: Any, shapes: Shapes, labels: Collection[str]) -> frozenset[str]:
    """Return the names of the data arguments. All other arguments are parameters.

    Labels are data. If `shapes` has only some arguments, these are data. If it has all arguments, an argument is data
    if its shape depends on the batch size or cannot be inferred.
    """
    names = symbol.list_arguments()
    named = frozenset(shapes).union(labels)
    candidates = [name for name in names if name not in labels]
    if not named.issuperset(names) or not candidates:
        return named
    likely_parameters = [name for name in candidates if name.endswith(PARAMETER_ENDINGS)]
    likely_data = [name for name in candidates if name not in likely_parameters]
    needed = _find_needed_shapes(symbol, shapes, (likely_data, likely_parameters))
    if len(needed) == len(candidates):
        return named
    if not needed:  # all arguments are parameters with declared shapes
        return frozenset(labels)
    batch = next(iter(needed.values()))[:1]
    with_double_batch = {n: (2 * s[0], *s[1:]) if s and s[:1] == batch else s for n, s in needed.items()}
    inferred = _infer_shapes(symbol, with_double_batch)
    if inferred is None:  # attributes of operators contain the batch size
        return named
    return frozenset(needed).union(labels, (n for n in candidates if inferred.get(n) != tuple(shapes[n])))


def _find_needed_shapes(symbol: Any, shapes: Shapes, groups: Sequence[Sequence[str]]) -> dict[str, tuple[int, ...]]:
    needed: dict[str, tuple[int, ...]] = {}
    inferred: Mapping[str, tuple[int, ...]] = {}
    for group in groups:
        for name in group:
            shape = tuple(shapes[name])
            if inferred.get(name) != shape:
                needed[name] = shape
                if len(needed) < MOST_INFERENCES:
                    inferred = _infer_shapes(symbol, needed) or needed
        inferred = _infer_shapes(symbol, needed) or needed
    return needed


def _infer_shapes(symbol: Any, shapes: Shapes) -> dict[str, tuple[int, ...]] | None:
    try:
        inferred, _, _ = symbol.infer_shape_partial(**shapes)
    except (mx.base.MXNetError, ValueError):
        return None
    return {name: tuple(shape or ()) for name, shape in zip(symbol.list_arguments(), inferred or (), strict=False)}
