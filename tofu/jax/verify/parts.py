"""Run an equation in parts, as workers do, with the rules of the backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tofu.analysis import OperatorAccess
from tofu.jax.backend.local_calls import BITS, LocalCall, RepeatedElements, find_repeated_elements, share_parameters
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK
from tofu.jax.verify.nodes import EquationCase, read_numbers
from tofu.program.lockstep import Box
from tofu.verification.kernel import Array
from tofu.verification.split import (
    Part,
    Range,
    SplitError,
    combine_outputs,
    cut_input,
    find_region,
    move_cells,
    region_shape,
    relative_error,
)


@dataclass(frozen=True)
class SingleWorker:
    """A worker with a known number, as a stand-in for `Workers`."""

    number: int

    def pick(self, table: Any) -> list[Any]:
        """Return this worker's row of `table`."""
        return list(np.asarray(table, np.int32)[self.number])

    def take_part(self, whole: Any, boxes: Sequence[Box]) -> Any:
        """Return the worker's shard of a replicated value."""
        return whole[tuple(slice(begin, end) for begin, end in boxes[self.number])]


def run_in_parts(node: EquationCase, access: OperatorAccess, splits: Mapping[int, Sequence[Range]]) -> list[Array]:
    """Run an equation once for each combination of the axes' ranges, and return the combined outputs.

    Raise SplitError if the parts do not make up the complete outputs. Raise InternalError if workers with equal shards
    would need different programs.
    """
    parts = [dict(zip(splits, ranges, strict=True)) for ranges in product(*splits.values())]
    shapes = [output.shape for output in node.outputs]
    if any(access.axes[axis] in access.fetched_axes for axis in splits):
        pieces = [move_cells(node.inputs, access, part, shapes) for part in parts]
    else:
        pieces = _run_parts(node, access, parts, are_equal=all(map(_are_equal, splits.values())))
    made = []
    for whole, written, own in zip(node.outputs, access.outputs, zip(*pieces, strict=True), strict=True):
        made.append(_read_bits(combine_outputs(own, written, splits, access, whole.shape), whole.dtype))
    return made


def run_in_overlapping_parts(
    node: EquationCase, access: OperatorAccess, splits: Mapping[int, Sequence[Range]]
) -> list[Array]:
    """Do the same as `run_in_parts` with shards that are rounded up to equal lengths, so that they overlap."""
    rounded = {axis: _round_up(ranges) for axis, ranges in splits.items()}
    parts, own = (
        [dict(zip(splits, counts, strict=True)) for counts in product(*some.values())] for some in (rounded, splits)
    )
    counted = {axis: tuple(part[axis][1] - part[axis][0] for part in own) for axis in splits}
    pieces = _run_parts(node, access, parts, True, find_repeated_elements(node.equation, access, counted))
    made = []
    for whole, written, its_own in zip(node.outputs, access.outputs, zip(*pieces, strict=True), strict=True):
        regions = [
            [find_region(written.rows, whole.shape, part, access.extents) for part in some] for some in (parts, own)
        ]
        kept = [_crop(piece, held, owned) for piece, held, owned in zip(its_own, *regions, strict=True)]
        made.append(_read_bits(combine_outputs(kept, written, splits, access, whole.shape), whole.dtype))
    return made


def _read_bits(together: Array, dtype: np.dtype[Any]) -> Array:
    is_bits = dtype.kind == "f" and together.dtype.kind == "u"
    return together.astype(BITS[dtype.itemsize]).view(dtype) if is_bits else together.astype(dtype)


def _round_up(ranges: Sequence[Range]) -> list[Range]:
    longest = max(end - begin for begin, end in ranges)
    return [(begin, begin + longest) for begin, _ in ranges]


def _crop(piece: Array, held: Box, own: Box) -> Array:
    return piece[tuple(slice(b - first, e - first) for (b, e), (first, _) in zip(own, held, strict=True))]


def _are_equal(ranges: Sequence[Range]) -> bool:
    return len({end - begin for begin, end in ranges}) == 1


def _run_parts(
    node: EquationCase,
    access: OperatorAccess,
    parts: Sequence[Part],
    are_equal: bool,
    repeated: Sequence[RepeatedElements] = (),
) -> list[list[Array]]:
    inputs = [
        [cut_input(array, read, part, access.extents) for array, read in zip(node.inputs, access.inputs, strict=True)]
        for part in parts
    ]
    boxes = [
        [find_region(written.rows, output.shape, part, access.extents) for part in parts]
        for output, written in zip(node.outputs, access.outputs, strict=True)
    ]
    changed = [
        access.worker_attributes(
            {access.axes[axis]: taken for axis, taken in part.items()},
            [array.shape for array in inputs[n]],
            [region_shape(own[n]) for own in boxes],
        )
        for n, part in enumerate(parts)
    ]
    pieces = []
    for n in range(len(parts)):
        parameters = share_parameters(node.equation, changed if are_equal else changed[n : n + 1])
        operands = node.fill_operands(node.make_inputs(inputs[n]))
        if node.equation.primitive in (LOOP_CELL, LOOP_STACK):
            found = node.evaluate(operands)
        else:
            found = LocalCall(node.equation, parameters, changed, boxes, SingleWorker(n), repeated).run(operands)
        pieces.append(
            [_check(read_numbers(result), region_shape(own[n])) for result, own in zip(found, boxes, strict=True)]
        )
    return pieces


def _check(piece: Array, wanted: tuple[int, ...]) -> Array:
    if piece.shape != wanted:
        raise SplitError(f"a part of an output is {piece.shape}, and its region {wanted}")
    return piece


def find_error(value: Array, reference: Array) -> float:
    """Return the largest relative error. Integers, booleans and keys must be equal; otherwise the error is infinite."""
    if reference.dtype.kind in "biu":
        return 0.0 if np.array_equal(value, reference) else float("inf")
    return relative_error(value, reference)
