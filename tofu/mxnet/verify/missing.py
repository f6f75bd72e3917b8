"""Strategies that the analysis did not find: cuts of the stock kernel's tensors that are exact all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import Combine, OperatorAccess, Row
from tofu.mxnet.verify.case import Case, Fixed, Numbers
from tofu.mxnet.verify.cuts import Cut, Geometry, list_geometries, try_geometry
from tofu.mxnet.verify.nodes import Node, execute_training_graph
from tofu.mxnet.verify.operators import analyse_node
from tofu.mxnet.verify.windows import list_window_geometries

Try = Callable[[Node, Geometry, Sequence[bool]], Cut | None]
Windowed = Callable[[Node, Collection[int], Collection[int], bool], list[Geometry]]


@dataclass(frozen=True)
class Missing:
    """An exact cut of an operator that is none of its strategies."""

    op: str
    cut: Cut


def find_missing(
    case: Case, run: Try = try_geometry, list_windowed: Windowed = list_window_geometries
) -> tuple[Missing, ...]:
    """What is missing of the strategies of one operator and of those of its gradient.

    Extents that data index into stay whole: cut, they would let a kernel read outside its tensor. `run` is where a cut is tried, and
    `list_windowed` where inputs are changed to see what reads them; MXNet ends its process at some.
    """
    texts = {name: str(value) for name, value in case.attributes.items()}
    nodes = execute_training_graph(case.op, texts, case.draw_inputs(), case.wrt, seed=1)
    shrinks = not any(isinstance(given, Fixed) for given in case.numbers)
    free = [n for n, given in enumerate(case.numbers) if isinstance(given, Numbers) and not given.is_whole]
    geometries = [
        *list_geometries(nodes[0], case.indexed, shrinks),
        *list_windowed(nodes[0], free, case.indexed, shrinks),
    ]
    return tuple(Missing(node.op, cut) for node in nodes for cut in _find_missing_cuts(node, geometries, run))


def _find_missing_cuts(node: Node, geometries: Sequence[Geometry], run: Try) -> list[Cut]:
    description = DESCRIPTIONS.get(node.op)
    if description is None or None in (*node.input_roles, *node.output_roles):
        return []  # a step of a longer gradient, whose tensors are no input, output or gradient of the operator
    access = analyse_node(description, node)
    # An output of zeros, as the gradient of a label, is so however it is cut.
    written = [
        output.is_written and bool(np.any(whole)) for output, whole in zip(access.outputs, node.outputs, strict=True)
    ]
    known = [_describe_axis(access, axis, written) for axis in range(len(access.axes))]
    asked = [node.is_asked_for(n) and is_written for n, is_written in enumerate(written)]
    tried = (run(node, geometry, asked) for geometry in geometries)
    exact = {cut for cut in tried if cut is not None}
    read = [one.is_read for one in access.inputs]
    return sorted((cut for cut in exact if not any(_is_covered(cut, axis, read) for axis in known)), key=repr)


def _is_covered(cut: Cut, strategy: Cut, read: Sequence[bool]) -> bool:
    """Whether a strategy is that cut, maybe with more of the inputs cut that are read."""
    dimensions = zip(cut.inputs, strategy.inputs, read, strict=True)
    narrower = all(d in (None, ours) for d, ours, is_read in dimensions if is_read)
    return narrower and (cut.outputs, cut.combine) == (strategy.outputs, strategy.combine)


def _describe_axis(access: OperatorAccess, axis: int, is_written: Sequence[bool]) -> Cut:
    """A strategy in the same words. What is not written has no part in it."""

    def find_dimension(rows: Sequence[Row]) -> int | None:
        return next((d for d, row in enumerate(rows) if any(moving == axis for moving, _ in row.terms)), None)

    combine = [  # parts that overlap are put side by side too
        _without_overlap(written.combine[axis]) if counts else Combine.REPLICATE
        for written, counts in zip(access.outputs, is_written, strict=True)
    ]
    outputs = [
        find_dimension(written.rows) if together is Combine.CONCAT else None
        for written, together in zip(access.outputs, combine, strict=True)
    ]
    return Cut(tuple(find_dimension(read.rows) for read in access.inputs), tuple(outputs), tuple(combine))


def _without_overlap(combine: Combine) -> Combine:
    return Combine.CONCAT if combine is Combine.OVERLAP_ADD else combine
