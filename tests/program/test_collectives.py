from __future__ import annotations

import heapq
import itertools
from dataclasses import replace
from math import prod

import pytest

from tofu.errors import InternalError
from tofu.graph import Graph, Tensor, TensorKind
from tofu.jax.backend.collectives import RULES
from tofu.program.check_collectives import _FOLLOW as CHECKED
from tofu.program.check_collectives import check_collectives
from tofu.program.collectives import (
    REPLICATED,
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    Exchange,
    ReduceScatter,
    Slice,
    find_layout,
    find_rounds,
    recognize,
)
from tofu.program.lockstep import Lockstep, Pattern, ProgramValue, Read, Transfer
from tofu.program.lockstep import TransferPiece as Piece

SHAPE = (24, 24)
GRAPH = Graph((Tensor("x", SHAPE, "float32", 4, TensorKind.INPUT),), (), ())


def list_digits(factors):
    return list(itertools.product(*map(range, factors)))


def split_boxes(layout, factors):
    boxes = []
    for digits in list_digits(factors):
        box = [(0, extent) for extent in SHAPE]
        for digit, factor, d in zip(digits, factors, layout, strict=True):
            if d != REPLICATED:
                begin, end = box[d]
                size = (end - begin) // factor
                box[d] = begin + digit * size, begin + (digit + 1) * size
        boxes.append(tuple(box))
    return tuple(boxes)


def intersect(first, second):
    box = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(first, second, strict=True))
    return box if all(begin < end for begin, end in box) else None


def make_program(held, wanted, factors, summed=()):
    """Return a program that moves a tensor between layouts. Workers along `summed` axes have partial results.

    Each worker reads each box from itself, or from the nearest worker that has it.
    """
    digits, pieces = list_digits(factors), []

    def count_common(owner, reader):
        return sum(a == b for a, b in zip(digits[owner], digits[reader], strict=True)), owner == reader

    for reader, own in enumerate(wanted):
        for box in dict.fromkeys(held):
            common = intersect(box, own)
            if common is None:
                continue
            addends: dict[tuple[int, ...], list[int]] = {}
            for owner, second in enumerate(held):
                if second == box:
                    addends.setdefault(tuple(digits[owner][axis] for axis in summed), []).append(owner)
            owners = [
                max(group, key=lambda owner, reader=reader: count_common(owner, reader)) for group in addends.values()
            ]
            reads = [
                Read(0, owner, tuple(b - a for (a, _), (b, _) in zip(box, common, strict=True)), (0, 1))
                for owner in owners
            ]
            begin = tuple(b - a for (a, _), (b, _) in zip(own, common, strict=True))
            pieces.append(Piece(reader, begin, tuple(e - b for b, e in common), tuple(reads)))
    transfer = Transfer(1, (0,), Pattern(tuple(pieces)))
    return Lockstep(
        GRAPH, factors, (ProgramValue(0, held), ProgramValue(0, wanted)), {0: 1}, {}, {1: transfer}, ()
    ), transfer


def change(transfer, **attributes):
    return transfer._replace(pattern=replace(transfer.pattern, **attributes))


def list_next_layouts(layout, factors, cells):
    """Yield the layouts that one collective or slice makes, each with the elements that a worker receives and then has."""
    for axis, d in enumerate(layout):
        for e in (REPLICATED, *range(len(SHAPE))):
            later = layout[axis + 1 :]  # axes that split the dimension further would be out of order
            if e == d or (d != REPLICATED and d in later) or (e != REPLICATED and e in later):
                continue
            changed = (*layout[:axis], e, *later)
            if d == REPLICATED:
                yield changed, 0, cells // factors[axis]
            elif e == REPLICATED:
                yield changed, cells * (factors[axis] - 1), cells * factors[axis]
            else:
                yield changed, cells * (factors[axis] - 1) // factors[axis], cells


def count_least(held, wanted, factors, cells):
    waiting, seen = [(0, held, cells)], set()
    while waiting:
        moved, layout, left = heapq.heappop(waiting)
        if layout == wanted:
            return moved
        if layout in seen:
            continue
        seen.add(layout)
        for changed, more, held_after in list_next_layouts(layout, factors, left):
            heapq.heappush(waiting, (moved + more, changed, held_after))
    return None


@pytest.mark.parametrize("factors", [(4,), (2, 3), (2, 2, 2)])
def test_a_chain_is_found_whenever_one_moves_only_needed_elements(factors):
    layouts = list(itertools.product((REPLICATED, 0, 1), repeat=len(factors)))
    found = 0
    for held, wanted in itertools.permutations(layouts, 2):
        program, transfer = make_program(split_boxes(held, factors), split_boxes(wanted, factors), factors)
        assert find_layout(program.values[0].boxes, SHAPE, factors) == held
        least = count_least(held, wanted, factors, prod(program.values[0].shape))
        is_enough = least is not None and program.count * least <= transfer.pattern.remote_elements
        collectives = recognize(program, transfer)
        check_collectives(program, transfer, collectives)
        assert isinstance(collectives[0], Exchange) != is_enough, (held, wanted)
        found += is_enough
    assert found > len(layouts)


@pytest.mark.parametrize(
    ("held", "summed", "wanted", "expected"),
    [
        ((REPLICATED, 0), (0,), (1, 0), [ReduceScatter(0, 1, "Sum")]),
        ((REPLICATED, 0), (0,), (REPLICATED, 0), [AllReduce((0,), "Sum")]),
        ((REPLICATED, REPLICATED), (0, 1), (0, 0), [ReduceScatter(0, 0, "Sum"), ReduceScatter(1, 0, "Sum")]),
        ((0, REPLICATED), (1,), (REPLICATED, 1), [ReduceScatter(1, 1, "Sum"), AllGather(0, 0)]),
        ((0, 1), (), (0, 0), [AllToAll(1, 1, 0)]),
        ((REPLICATED, REPLICATED), (), (0, 1), [Slice(0, 0), Slice(1, 1)]),
    ],
)
def test_collectives_are_recognized(held, summed, wanted, expected):
    program, transfer = make_program(split_boxes(held, (2, 2)), split_boxes(wanted, (2, 2)), (2, 2), summed)
    two_stages = isinstance(expected[0], AllReduce)
    collectives = recognize(program, change(transfer, copies=transfer.pattern.pieces) if two_stages else transfer)
    assert list(collectives) == expected
    check_collectives(program, transfer, collectives)


@pytest.mark.parametrize(
    ("collectives", "message"),
    [
        ([AllGather(0, 0)], "worker 0 has ((0, 24), (0, 12)) instead of ((0, 12), (0, 24))"),
        ([AllToAll(1, 1, 1)], "concatenated along dimension 1"),
        ([AllReduce((1,), "Sum")], "partial results of"),
        ([Slice(0, 1)], "worker 0 has"),
    ],
)
def test_wrong_collectives_are_found(collectives, message):
    program, transfer = make_program(split_boxes((0, 1), (2, 2)), split_boxes((0, REPLICATED), (2, 2)), (2, 2))
    check_collectives(program, transfer, [AllGather(1, 1)])
    with pytest.raises(InternalError) as caught:
        check_collectives(program, transfer, collectives)
    assert message in str(caught.value)


def test_a_transfer_of_other_elements_is_found():
    program, transfer = make_program(split_boxes((0, 1), (2, 2)), split_boxes((0, REPLICATED), (2, 2)), (2, 2))
    first, *others = transfer.pattern.pieces
    shifted = first._replace(reads=tuple(read._replace(begin=(3, 3)) for read in first.reads))
    for pieces, message in (
        (others, "the pieces of worker 0 have 144 of 288 elements"),
        ([shifted, *others], "worker 0 reads elements from (3, 3) on for those from (0, 0) on"),
    ):
        with pytest.raises(InternalError) as caught:
            check_collectives(program, change(transfer, pieces=tuple(pieces)), [AllGather(1, 1)])
        assert message in str(caught.value)


def test_every_collective_is_checked_and_run():
    kinds = {collective.__name__ for collective in CHECKED}
    assert {*kinds, "Exchange"} == {name.strip() for name in Collective.split("|")}
    assert kinds == {collective.__name__ for collective in RULES}


def test_a_repeated_addend_is_not_a_reduction():
    program, transfer = make_program(split_boxes((REPLICATED, 0), (2, 2)), split_boxes((1, 0), (2, 2)), (2, 2), (0,))
    assert not any(isinstance(collective, Exchange) for collective in recognize(program, transfer))
    first, *others = transfer.pattern.pieces
    repeated = first._replace(reads=(first.reads[0],) * 2)
    (exchange,) = recognize(program, change(transfer, pieces=(repeated, *others)))
    assert isinstance(exchange, Exchange)


def test_missing_and_repeated_sums_are_found():
    program, transfer = make_program(split_boxes((REPLICATED, 0), (2, 2)), split_boxes((1, 0), (2, 2)), (2, 2), (0,))
    for collectives, message in (
        ([Slice(0, 1)], "1 partial results are reduced, but its pieces have [2]"),
        ([ReduceScatter(0, 1, "Sum"), AllReduce((0,), "Sum")], "partial results of"),
    ):
        with pytest.raises(InternalError) as caught:
            check_collectives(program, transfer, collectives)
        assert message in str(caught.value)


def test_wrong_moves_of_an_exchange_are_found():
    program, transfer = make_program(split_boxes((0, 1), (2, 2)), split_boxes((1, 0), (2, 2)), (2, 2))
    (exchange,) = recognize(program, transfer)
    check_collectives(program, transfer, [exchange])
    first = exchange.rounds[0]
    reader, (owner, source, target) = next(iter(first.moves.items()))
    for moves in (
        {**first.moves, reader: ((owner + 1) % 4, source, target)},
        {**first.moves, reader: (owner, (source[0] + 1, source[1]), target)},
        {first: move for first, move in first.moves.items() if first != reader},
    ):
        broken = replace(exchange, rounds=(replace(first, moves=moves), *exchange.rounds[1:]))
        with pytest.raises(InternalError, match="other pieces are sent"):
            check_collectives(program, transfer, [broken])


def test_replicas_of_a_sum_add_in_one_order():
    reads = [Read(0, owner, (0,), (0,)) for owner in (2, 0, 1)]
    pieces = [Piece(3, (0,), (4,), (reads[1],)), Piece(0, (0,), (4,), tuple(reads)), Piece(1, (0,), (4,), tuple(reads))]
    rounds = find_rounds(pieces)
    for reader in (0, 1):
        assert [first.moves[reader][0] for first in rounds if reader in first.moves] == [2, 0, 1]
