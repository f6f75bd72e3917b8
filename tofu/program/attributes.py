"""Attributes of the workers' copies of operators, where they differ from the operator's attributes."""

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
    """Return a table of changed attributes, and the row of the table for each [operator, worker].

    Each row has the attributes in which a copy differs from its operator. Row 0 is empty.
    """
    problem = choices.problem
    workers = prod(problem.factors)
    table: list[dict[str, str]] = [{}]
    index = np.zeros((len(problem.graph.operators), workers), np.int32)
    row_of: dict[tuple[tuple[str, str], ...], int] = {(): 0}
    known: dict[tuple[int, bytes], npt.NDArray[np.int32]] = {}  # operators of one signature have one access object
    for position, operator in enumerate(problem.graph.operators):
        if operator.phase not in phases:
            continue
        signature = id(problem.accesses[position]), choices.operators[position].tobytes()
        if signature in known:
            index[position] = known[signature]
            continue
        boxes = _core.worker_boxes(
            problem.native, list(problem.factors), "operator", position, choices.operators[position].tolist()
        )
        seen: dict[bytes, int] = {}
        for worker in range(workers):
            key = boxes[worker].tobytes()
            if key not in seen:
                box = tuple((int(begin), int(end)) for begin, end in boxes[worker])
                changed = tuple(sorted(_copy_attributes(problem, position, box).items()))
                seen[key] = row_of.setdefault(changed, len(table))
                if seen[key] == len(table):
                    table.append(dict(changed))
            index[position, worker] = seen[key]
        known[signature] = index[position]
    return table, index


def _copy_attributes(problem: Problem, position: int, box: Box) -> dict[str, str]:
    operator, access = problem.graph.operators[position], problem.accesses[position]
    tensors = problem.graph.tensors
    inputs = [
        region_shape(r.rows, tensors[t].shape, box, access.extents)
        for t, r in zip(operator.inputs, access.inputs, strict=True)
    ]
    outputs = [
        region_shape(w.rows, tensors[t].shape, box, access.extents)
        for t, w in zip(operator.outputs, access.outputs, strict=True)
    ]
    changed = access.worker_attributes(dict(zip(access.axes, box, strict=True)), inputs, outputs)
    return {name: value for name, value in changed.items() if operator.attributes.get(name) != value}
