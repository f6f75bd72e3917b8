"""Attributes of operators, such as `num_filter`, whose values on workers differ from the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from tofu.graph import Phase
from tofu.program.parts import find_parts
from tofu.search import Choices, Problem
from tofu.search.strategies import Box, describe_part

NO_ROW = -1
"""The row of an operator and a worker that `workers_by_operator` does not list."""

Rows = npt.NDArray[np.int32]


def worker_attributes(
    choices: Choices, phases: Sequence[Phase], workers_by_operator: Mapping[int, Sequence[int]] | None = None
) -> tuple[list[dict[str, str]], Rows]:
    """Return a list of attribute changes such as {"num_filter": "8"}, and positions in this list.

    `positions[operator, worker]` is 0 if nothing changes, and -1 if `workers_by_operator` does not list the worker.
    """
    problem = choices.problem
    workers = prod(problem.factors)
    table: list[dict[str, str]] = [{}]
    rows = np.full((len(problem.graph.operators), workers), NO_ROW, np.int32)
    row_by_attributes: dict[tuple[tuple[str, str], ...], int] = {(): 0}
    # Equal operators share an access object.
    known: dict[tuple[int, bytes], tuple[npt.NDArray[np.int64], dict[bytes, int], Rows]] = {}
    for number, operator in enumerate(problem.graph.operators):
        if operator.phase not in phases:
            continue
        signature = id(problem.accesses[number]), choices.operators[number].tobytes()
        if signature not in known:
            known[signature] = find_parts(choices, number), {}, np.full(workers, NO_ROW, np.int32)
        boxes, row_by_box, row_by_worker = known[signature]
        selected = slice(None) if workers_by_operator is None else list(workers_by_operator.get(number, ()))
        for worker in np.arange(workers)[selected][row_by_worker[selected] == NO_ROW]:
            box_bytes = boxes[worker].tobytes()
            if box_bytes not in row_by_box:
                box = tuple((int(begin), int(end)) for begin, end in boxes[worker])
                attributes = tuple(sorted(_copy_attributes(problem, number, box).items()))
                row_by_box[box_bytes] = row_by_attributes.setdefault(attributes, len(table))
                if row_by_box[box_bytes] == len(table):
                    table.append(dict(attributes))
            row_by_worker[worker] = row_by_box[box_bytes]
        rows[number, selected] = row_by_worker[selected]
    return table, rows


def _copy_attributes(problem: Problem, number: int, box: Box) -> dict[str, str]:
    operator, access = problem.graph.operators[number], problem.accesses[number]
    inputs, outputs = (
        [problem.graph.tensors[tensor].shape for tensor in tensors] for tensors in (operator.inputs, operator.outputs)
    )
    _, _, attributes = describe_part(access, inputs, outputs, box)
    return {name: value for name, value in attributes.items() if operator.attributes.get(name) != value}
