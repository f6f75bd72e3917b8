"""Dropout: random, so its numbers are checked against its own mask.

The mask (0, or 1 / (1 - p)) is the second output; dimensions listed in `axes` have one mask cell for all. They cannot be split, for
every part would draw its own.
"""

from __future__ import annotations

from tofu.tdl import Random, op


@op("Dropout")
def dropout(data, *, p=0.5, axes=()):
    mask = Random()
    cell = lambda i: tuple(0 if d in axes else v for d, v in enumerate(i))  # noqa: E731
    return lambda *i: data[i] * mask(), lambda *i: mask()
