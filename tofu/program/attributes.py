"""Attributes that differ between a worker's copy of an operator and the operator."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.graph import Phase
from tofu.search import Choices, Problem
from tofu.search.strategies import Box, region_shape


def worker_attributes(choices: Choices, phases: Sequence[Phase]) -> tuple[list[dict[str, str]], npt.NDArray[np.int32]]:
    """Return a table of changed attributes, and the row of the table for each operator and worker.

    Row 0 is for copies without changes.
    """
    problem = choices.problem
    workers = prod(problem.factors)
    table: list[dict[str, str]] = [{}]
    rows = np.zeros((len(problem.graph.operators), workers), np.int32)
    row_by_attributes: dict[tuple[tuple[str, str], ...], int] = {(): 0}
    rows_by_signature: dict[
        tuple[int, bytes], npt.NDArray[np.int32]
    ] = {}  # operators with equal signatures share an access object
    for number, operator in enumerate(problem.graph.operators):
        if operator.phase not in phases:
            continue
        signature = id(problem.accesses[number]), choices.operators[number].tobytes()
        if signature in rows_by_signature:
            rows[number] = rows_by_signature[signature]
            continue
        boxes = _core.worker_boxes(
            problem.native, list(problem.factors), "operator", number, choices.operators[number].tolist()
        )
        row_by_box: dict[bytes, int] = {}
        for worker in range(workers):
            box_bytes = boxes[worker].tobytes()
            if box_bytes not in row_by_box:
                box = tuple((int(begin), int(end)) for begin, end in boxes[worker])
                attributes = tuple(sorted(_copy_attributes(problem, number, box).items()))
                row_by_box[box_bytes] = row_by_attributes.setdefault(attributes, len(table))
                if row_by_box[box_bytes] == len(table):
                    table.append(dict(attributes))
            rows[number, worker] = row_by_box[box_bytes]
        rows_by_signature[signature] = rows[number]
    return table, rows


def _copy_attributes(problem: Problem, number: int, box: Box) -> dict[str, str]:
    operator, access = problem.graph.operators[number], problem.accesses[number]
    tensors = problem.graph.tensors
    inputs = [
        region_shape(read.rows, tensors[tensor].shape, box, access.extents)
        for tensor, read in zip(operator.inputs, access.inputs, strict=True)
    ]
    outputs = [
        region_shape(written.rows, tensors[tensor].shape, box, access.extents)
        for tensor, written in zip(operator.outputs, access.outputs, strict=True)
    ]
    attributes = access.worker_attributes(dict(zip(access.axes, box, strict=True)), inputs, outputs)
    return {name: value for name, value in attributes.items() if operator.attributes.get(name) != value}
