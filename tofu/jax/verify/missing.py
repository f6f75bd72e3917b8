"""Find ways to split an equation that its description lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tdl_ops.jax import DESCRIPTIONS, WHOLE
from tofu.jax.verify.nodes import EquationCase
from tofu.jax.verify.primitives import analyse_node
from tofu.verification.cuts import Cut, Geometry, Role, find_cut, list_geometries
from tofu.verification.kernel import Array
from tofu.verification.missing import Missing, find_uncovered
from tofu.verification.windows import list_window_geometries


def find_missing(node: EquationCase) -> tuple[Missing, ...]:
    """Return the correct splits of a JAX operation that are missing in its description.

    Return () for element-wise equations, loops, branches, and kernels that are described by a split rule, such as
    "b h _ -> b h _".
    """
    access = analyse_node(DESCRIPTIONS[node.op], node)
    if access.elementwise or node.op in WHOLE or "call" in node.equation.params:
        return ()
    floating_inputs = [n for n, array in enumerate(node.inputs) if array.dtype.kind == "f"]
    geometries = [*list_geometries(node, ()), *list_window_geometries(node, floating_inputs, ())]
    # A constant output is exact however its operands are split.
    is_informative = [bool(np.any(output)) for output in node.outputs]
    cuts_or_none = (_try_geometry(node, geometry, is_informative) for geometry in geometries)
    cuts = (cut for cut in cuts_or_none if cut is not None)
    return tuple(Missing(node.op, cut) for cut in find_uncovered(cuts, access, is_informative))


def _try_geometry(node: EquationCase, geometry: Geometry, is_informative: Sequence[bool]) -> Cut | None:
    def run_part(split: int, part: int) -> Sequence[Array] | None:
        inputs = [geometry.cut_input(n, array, split, part) for n, array in enumerate(node.inputs)]
        shapes = geometry.pieces[split][part]
        results = node.try_run(geometry.shrink(node.values, split, part), inputs, shapes)
        return None if results is None or tuple(array.shape for array in results) != shapes else results

    inputs: list[Role] = [("input", n) for n in range(len(node.inputs))]
    outputs: list[Role] = [("output", n) for n in range(len(node.outputs))]
    return find_cut(geometry, node.outputs, (inputs, outputs), is_informative, run_part)
