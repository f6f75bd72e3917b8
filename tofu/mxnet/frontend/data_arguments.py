"""Distinction of data and parameters when the shapes of all arguments are known, as in `bind` with whole arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import mxnet as mx

from tofu.mxnet.frontend.inference import PARAMETER_ENDINGS, Shapes

MOST_INFERENCES = 32


def find_data(symbol: Any, shapes: Shapes, labels: Collection[str]) -> frozenset[str]:
    """Return the names of the arguments that are data. All other arguments are parameters.

    If some shapes are missing, data are the labels and the arguments with shapes. If no shape is missing, data are the
    labels, and arguments whose shape grows with the batch or cannot be inferred from earlier arguments.
    """
    names = symbol.list_arguments()
    given = frozenset(shapes).union(labels)
    candidates = [name for name in names if name not in labels]
    if not given.issuperset(names) or not candidates:
        return given
    named = [name for name in candidates if name.endswith(PARAMETER_ENDINGS)]
    needed = _find_needed(symbol, shapes, ([name for name in candidates if name not in named], named))
    if len(needed) == len(candidates):
        return given
    whole = {name: tuple(shapes[name]) for name in needed}
    batch = whole[needed[0]][:1]
    found = _infer(symbol, {n: (2 * s[0], *s[1:]) if s and s[:1] == batch else s for n, s in whole.items()})
    if found is None:  # attributes of operators contain the batch size
        return given
    return frozenset(needed).union(labels, (n for n in candidates if found.get(n) != tuple(shapes[n])))


def _find_needed(symbol: Any, shapes: Shapes, groups: Sequence[Sequence[str]]) -> list[str]:
    """Return the names, in order, whose shapes cannot be inferred from those of the names found before.

    After `MOST_INFERENCES` inferences, only the end of a group triggers another one.
    """
    needed: dict[str, tuple[int, ...]] = {}
    known: Mapping[str, tuple[int, ...]] = {}
    for group in groups:
        for name in group:
            shape = tuple(shapes[name])
            if known.get(name) != shape:
                needed[name] = shape
                if len(needed) < MOST_INFERENCES:
                    known = _infer(symbol, needed) or needed
        known = _infer(symbol, needed) or needed
    return list(needed)


def _infer(symbol: Any, shapes: Shapes) -> dict[str, tuple[int, ...]] | None:
    try:
        found, _, _ = symbol.infer_shape_partial(**shapes)
    except (mx.base.MXNetError, ValueError):
        return None
    return {name: tuple(shape or ()) for name, shape in zip(symbol.list_arguments(), found or (), strict=False)}
