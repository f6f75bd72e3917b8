"""Choices that another one of the same decider can stand for: without them tables of pairs are smaller, and the least cost is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.shared.pairwise_solvers import FORBIDDEN, Sizes, Table, Tables

Floats = npt.NDArray[np.float64]


def drop_dominated(sizes: Sizes, tables: Tables) -> dict[tuple[Any, Any], Table]:
    """The tables without choices that another one of the same decider can stand for, whatever all others choose: its cost in every table
    is at most as much more as it is less in others, by the worst choice of the neighbour in each. The least cost stays what it was.
    """
    kept = {who: np.arange(size) for who, size in sizes.items()}
    near: dict[Any, list[tuple[Any, Any]]] = {who: [] for who in sizes}
    priced = {pair: np.where(table == FORBIDDEN, np.inf, table.astype(np.float64)) for pair, table in tables.items()}
    for pair in tables:
        for who in dict.fromkeys(pair):
            near[who].append(pair)
    waiting = dict.fromkeys(sizes)
    while waiting:
        who = next(iter(waiting))
        del waiting[who]
        with np.errstate(invalid="ignore"):  # what cannot be at all is no better than what costs without end
            compared = [_compare(priced[pair], kept, pair, who) for pair in near[who]]
            worse = np.sum([np.zeros(2 * (len(kept[who]),)), *compared], axis=0)
        left = list(range(len(kept[who])))
        for one in range(len(kept[who])):
            if any(other != one and worse[one, other] >= 0 for other in left):
                left.remove(one)
        if len(left) < len(kept[who]):
            kept[who] = kept[who][left]
            waiting.update(dict.fromkeys(other for pair in near[who] for other in pair if other != who))
    return {(a, b): table[np.ix_(kept[a], kept[b])] for (a, b), table in tables.items()}


def _compare(table: npt.NDArray[np.float64], kept: Mapping[Any, Any], pair: tuple[Any, Any], who: Any) -> Any:
    """By choices i and j of one of the two who meet: what i costs more than j, at the choice of the other at which that is least."""
    a, b = pair
    if a == b:
        own = np.diagonal(table)[kept[who], None]
    else:
        own = table[np.ix_(kept[a], kept[b])]
        own = own if who == a else own.T
    more = np.stack([own - other for other in own], axis=1)
    more[np.isnan(more)] = np.inf  # where i is forbidden, nothing is asked of j
    return more.min(axis=2)
