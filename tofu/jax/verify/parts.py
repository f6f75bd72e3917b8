"""Run a JAX operation in parts, as the workers of a plan do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    list_parts,
    move_elements,
    region_shape,
    relative_error,
)


@dataclass(frozen=True)
class SingleWorker:
    """One worker of a plan, which runs alone."""

    number: int

    def pick(self, table: Any) -> list[Any]:
        """Return this worker's row of `table`."""
        return list(np.asarray(table, np.int32)[self.number])

    def take_part(self, replicated: Any, boxes: Sequence[Box]) -> Any:
        """Return this worker's shard of a replicated array: the region `boxes[number]`."""
        return replicated[tuple(slice(begin, end) for begin, end in boxes[self.number])]


def run_in_parts(
    node: EquationCase, access: OperatorAccess, splits: Mapping[int, Sequence[Range]], *, overlapping: bool = False
) -> list[Array]:
    """Compute a JAX operation in parts, as workers do, and return the combined outputs.

    `splits` maps axes to ranges, such as {0: [(0, 2), (2, 5)]}. If `overlapping` is True, ranges become equally long:
    [(0, 3), (2, 5)]. Raise SplitError if the parts do not form the complete outputs.
    """
    parts = list_parts(splits)
    if overlapping:
        pieces = _run_overlapping(node, access, splits, parts)
    elif any(access.axes[axis] in access.fetched_axes for axis in splits):
        pieces = [move_elements(node.inputs, access, part, [output.shape for output in node.outputs]) for part in parts]
    else:
        are_equal = all(len({end - begin for begin, end in ranges}) == 1 for ranges in splits.values())
        pieces = _run_parts(node, access, parts, are_equal)
    outputs = []
    for output, written, output_pieces in zip(node.outputs, access.outputs, zip(*pieces, strict=True), strict=True):
        outputs.append(_read_bits(combine_outputs(output_pieces, written, splits, access, output.shape), output.dtype))
    return outputs


def _run_overlapping(
    node: EquationCase, access: OperatorAccess, splits: Mapping[int, Sequence[Range]], own_parts: Sequence[Part]
) -> list[list[Array]]:
    parts = list_parts({axis: _round_up(ranges) for axis, ranges in splits.items()})
    own_counts = {axis: tuple(part[axis][1] - part[axis][0] for part in own_parts) for axis in splits}
    pieces = _run_parts(node, access, parts, True, find_repeated_elements(node.equation, access, own_counts))
    regions, own_regions = (_list_regions(node, access, each) for each in (parts, own_parts))
    return [list(map(_crop, *each)) for each in zip(pieces, regions, own_regions, strict=True)]


def _list_regions(node: EquationCase, access: OperatorAccess, parts: Sequence[Part]) -> list[list[Box]]:
    pairs = list(zip(node.outputs, access.outputs, strict=True))
    return [
        [find_region(written.rows, output.shape, part, access.extents) for output, written in pairs] for part in parts
    ]


def _read_bits(output: Array, dtype: np.dtype[Any]) -> Array:
    # Local calls may return floating-point numbers as bits.
    is_bits = dtype.kind == "f" and output.dtype.kind == "u"
    return output.astype(BITS[dtype.itemsize]).view(dtype) if is_bits else output.astype(dtype)


def _round_up(ranges: Sequence[Range]) -> list[Range]:
    longest = max(end - begin for begin, end in ranges)
    return [(begin, begin + longest) for begin, _ in ranges]


def _crop(piece: Array, region: Box, own_region: Box) -> Array:
    begins = [begin for begin, _ in region]
    return piece[tuple(slice(b - first, e - first) for (b, e), first in zip(own_region, begins, strict=True))]


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
    regions = _list_regions(node, access, parts)
    shapes = [list(map(region_shape, part_regions)) for part_regions in regions]
    attributes_by_part = [
        access.worker_attributes(
            {access.axes[axis]: axis_range for axis, axis_range in part.items()},
            [array.shape for array in inputs[n]],
            shapes[n],
        )
        for n, part in enumerate(parts)
    ]
    boxes = list(zip(*regions, strict=True))
    pieces = []
    for n in range(len(parts)):
        parameters = share_parameters(node.equation, attributes_by_part if are_equal else attributes_by_part[n : n + 1])
        operands = node.fill_operands(node.make_inputs(inputs[n]))
        if node.equation.primitive in (LOOP_CELL, LOOP_STACK):
            results = node.evaluate(operands)
        else:
            call = LocalCall(node.equation, parameters, attributes_by_part, boxes, SingleWorker(n), repeated)
            results = call.run(operands)
        pieces.append([_check_shape(read_numbers(x), shape) for x, shape in zip(results, shapes[n], strict=True)])
    return pieces


def _check_shape(piece: Array, shape: tuple[int, ...]) -> Array:
    if piece.shape != shape:
        raise SplitError(f"a part of an output is {piece.shape}, and its region {shape}")
    return piece


def find_error(value: Array, reference: Array) -> float:
    """Return the largest relative error. Return infinity if integers, booleans or random keys differ."""
    if reference.dtype.kind in "biu":
        return 0.0 if np.array_equal(value, reference) else float("inf")
    return relative_error(value, reference)
