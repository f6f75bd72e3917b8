"""The chains of collectives from one layout to another, held against all that there are."""

from __future__ import annotations

import heapq
import itertools
from math import prod

import pytest

from tofu.jax.backend.collectives import Workers, find_chain
from tofu.jax.backend.pieces import find_nearest
from tofu.jax.backend.places import Place
from tofu.search.choices import REPLICATED

SHAPE = (24, 24)


def lay_out(layout, factors):
    boxes = []
    for digits in itertools.product(*map(range, factors)):
        box = [(0, extent) for extent in SHAPE]
        for digit, factor, d in zip(digits, factors, layout, strict=True):
            if d != REPLICATED:
                begin, end = box[d]
                size = (end - begin) // factor
                box[d] = begin + digit * size, begin + (digit + 1) * size
        boxes.append(tuple(box))
    return Place(tuple(boxes), layout)


def list_changes(layout, factors, cells):
    """What one collective or slice makes of a layout: the next one, the cells that each worker gets from others, those it has then."""
    for step, d in enumerate(layout):
        for e in (REPLICATED, *range(len(SHAPE))):
            later = layout[step + 1 :]  # axes that split the dimension further would be out of order
            if e == d or (d != REPLICATED and d in later) or (e != REPLICATED and e in later):
                continue
            changed = (*layout[:step], e, *later)
            if d == REPLICATED:
                yield changed, 0, cells // factors[step]
            elif e == REPLICATED:
                yield changed, cells * (factors[step] - 1), cells * factors[step]
            else:
                yield changed, cells * (factors[step] - 1) // factors[step], cells


def count_least(held, wanted, factors):
    """The cells that each worker gets from others by the best chain of all; None where there is none."""
    waiting, seen = [(0, held.layout, prod(held.shape))], set()
    while waiting:
        moved, layout, cells = heapq.heappop(waiting)
        if layout == wanted.layout:
            return moved
        if layout in seen:
            continue
        seen.add(layout)
        for changed, more, left in list_changes(layout, factors, cells):
            heapq.heappush(waiting, (moved + more, changed, left))
    return None


@pytest.mark.parametrize("factors", [(4,), (2, 2), (2, 3), (2, 2, 2)])
def test_no_chain_that_moves_what_is_needed_alone_is_missed(factors):
    """One axis at a time, slices first and gathers last, finds it wherever one of all chains does. Elsewhere boxes move one by one."""
    workers, layouts = Workers(factors), list(itertools.product((REPLICATED, 0, 1), repeat=len(factors)))
    found = 0
    for held, wanted in itertools.permutations([lay_out(layout, factors) for layout in layouts], 2):
        needed = sum(
            prod(max(0, min(b, d) - max(a, c)) for (a, b), (c, d) in zip(held.boxes[o], wanted.boxes[r], strict=True))
            for o, r, _ in find_nearest(held, wanted.boxes, factors)
            if o != r
        )
        least = count_least(held, wanted, factors)
        chain, moved = workers._find_move(held, wanted)
        assert moved == needed
        is_enough = least is not None and workers.count * least <= needed
        assert (chain is not None) == is_enough, (held.layout, wanted.layout)
        assert not is_enough or find_chain(held.layout, wanted.layout, factors) == chain
        found += is_enough
    assert found > len(layouts)
