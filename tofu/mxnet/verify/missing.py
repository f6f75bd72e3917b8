"""Strategies that the analysis did not find: cuts of the stock kernel's tensors that are exact all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.case import Case
from tofu.mxnet.verify.cuts import try_geometry
from tofu.mxnet.verify.nodes import Node, execute_training_graph
from tofu.mxnet.verify.operators import analyse_node
from tofu.verification.cuts import Cut, Geometry, list_geometries
from tofu.verification.missing import Missing, find_uncovered
from tofu.verification.numbers import Fixed, Numbers
from tofu.verification.windows import list_window_geometries

Try = Callable[[Node, Geometry, Sequence[bool]], Cut | None]
Windowed = Callable[[Node, Collection[int], Collection[int], bool], list[Geometry]]


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
    asked = [node.is_asked_for(n) and is_written for n, is_written in enumerate(written)]
    tried = (run(node, geometry, asked) for geometry in geometries)
    return find_uncovered((cut for cut in tried if cut is not None), access, written)
