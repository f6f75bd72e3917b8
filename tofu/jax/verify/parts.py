"""An equation carried out in parts, as workers do: each with the primitive on its parts, by the rules of the backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tofu.analysis import OperatorAccess
from tofu.jax.backend.local_calls import LocalCall, share_parameters
from tofu.jax.backend.places import Box
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK
from tofu.jax.verify.nodes import Node, read_numbers
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
class Alone:
    """Of several workers the one that runs, whose number is known: what `Workers` is to a call under `jax.shard_map`."""

    number: int

    def pick(self, table: Any) -> list[Any]:
        """The row of `table` that is this worker's."""
        return list(np.asarray(table, np.int32)[self.number])

    def take_part(self, whole: Any, boxes: Sequence[Box]) -> Any:
        """The worker's part of what all have."""
        return whole[tuple(slice(begin, end) for begin, end in boxes[self.number])]


def run_in_parts(node: Node, access: OperatorAccess, splits: Mapping[int, Sequence[Range]]) -> list[Array]:
    """The outputs of an equation, put together from those of its parts: one for each combination of the axes' ranges.

    Raises SplitError where the parts do not make up the whole, and InternalError where workers would need programs of their own
    although their parts are of equal size.
    """
    parts = [dict(zip(splits, ranges, strict=True)) for ranges in product(*splits.values())]
    shapes = [output.shape for output in node.outputs]
    if any(access.axes[axis] in access.fetched_axes for axis in splits):
        pieces = [move_cells(node.inputs, access, part, shapes) for part in parts]
    else:
        pieces = _run_parts(node, access, parts, are_equal=all(map(_are_equal, splits.values())))
    made = []
    for whole, written, own in zip(node.outputs, access.outputs, zip(*pieces, strict=True), strict=True):
        together = combine_outputs(own, written, splits, access, whole.shape)
        made.append(together.astype(whole.dtype))
    return made


def _are_equal(ranges: Sequence[Range]) -> bool:
    return len({end - begin for begin, end in ranges}) == 1


def _run_parts(node: Node, access: OperatorAccess, parts: Sequence[Part], are_equal: bool) -> list[list[Array]]:
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
            found = LocalCall(node.equation, parameters, changed, boxes, Alone(n)).run(operands)
        pieces.append([_check(read_numbers(one), region_shape(own[n])) for one, own in zip(found, boxes, strict=True)])
    return pieces


def _check(piece: Array, wanted: tuple[int, ...]) -> Array:
    if piece.shape != wanted:
        raise SplitError(f"a part of an output is {piece.shape}, and its region {wanted}")
    return piece


def find_error(value: Array, reference: Array) -> float:
    """The largest relative error; of whole numbers, booleans and keys infinite where they are not equal."""
    if reference.dtype.kind in "biu":
        return 0.0 if np.array_equal(value, reference) else float("inf")
    return relative_error(value, reference)
