"""Results of a module in pieces of the batch, one for each context that its user named, as MXNet's Module has them.

A module over shards is one device: its tensors are split as the plan says, not along the batch. Scripts for several contexts ask for what
each of them has of a result (`merge_multi_context=False`), which is cut out of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import mxnet as mx


def find_batch_axis(layout: str | None) -> int:
    """The dimension of samples in a layout such as "TNC": the first without one, -1 where there is none."""
    return int(mx.io.DataDesc.get_batch_axis(layout))


def cut_batch(whole: Any, axis: int, samples: int, pieces: int) -> list[Any]:
    """As many pieces of an array of so many samples, in the sizes of MXNet's: what is left over goes to the last.

    An array without samples, or whose extent is no multiple of their number, is handed out whole to each.
    """
    if axis < 0 or not whole.shape or whole.shape[axis] % samples or samples < pieces:
        return [whole] * pieces
    each = whole.shape[axis] // samples
    sizes = [round(samples / pieces)] * (pieces - 1)
    bounds = [0, *accumulate(sizes), samples]
    return [mx.nd.slice_axis(whole, axis=axis, begin=begin * each, end=end * each) for begin, end in pairwise(bounds)]


def join_batch(pieces: Sequence[Any], axis: int) -> Any:
    """The whole of such pieces, or an array that is whole."""
    if not isinstance(pieces, (list, tuple)):
        return pieces
    return pieces[0] if len(pieces) == 1 or axis < 0 else mx.nd.concat(*pieces, dim=axis)
