"""Search for splits that work, but that the analysis of the operator's description did not find.

A *geometry* is a way to cut all tensors of a forward operator into parts. The tensors of the backward operator are then
cut in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.case import Case
from tofu.mxnet.verify.kernels import KERNEL_ERRORS
from tofu.mxnet.verify.nodes import VerifiedNode, execute_training_graph, run_with_forward, write_attributes
from tofu.mxnet.verify.operators import analyse_node
from tofu.verification.cuts import Cut, Geometry, Role, find_cut, list_geometries
from tofu.verification.kernel import Array, Shape
from tofu.verification.missing import Missing, find_uncovered
from tofu.verification.numbers import Fixed, Numbers
from tofu.verification.report import find_precision
from tofu.verification.split import SplitError, relative_error
from tofu.verification.windows import list_window_geometries


def try_geometry(node: VerifiedNode, geometry: Geometry, is_compared: Sequence[bool]) -> Cut | None:
    """Run the kernel on the parts of a split. Return the split as a `Cut`, or None if it does not work.

    The outputs of the parts must give the whole outputs, with less work for each part. Outputs with False in
    `is_compared` may differ.
    """
    input_roles = [role for role in node.input_roles if role is not None]
    output_roles = [role for role in node.output_roles if role is not None]

    def run_part(split: int, part: int) -> list[Array] | None:
        try:
            return _run_part(node, geometry, split, part)
        except (SplitError, *KERNEL_ERRORS):
            return None

    return find_cut(geometry, node.outputs, (input_roles, output_roles), is_compared, run_part)


def _run_part(node: VerifiedNode, geometry: Geometry, split: int, part: int) -> list[Array]:
    def cut_all(arrays: Sequence[Array], roles: Sequence[Role | None]) -> list[Array]:
        pairs = zip(arrays, roles, strict=True)
        return [geometry.cut(array, role, split, part) for array, role in pairs if role is not None]

    inputs = cut_all(node.inputs, node.input_roles)
    shapes = [array.shape for array in cut_all(node.outputs, node.output_roles)]
    if node.gradient is None:
        return node.run(write_attributes(geometry.shrink(node.values, split, part)), inputs, shapes)[0]
    forward = node.gradient.forward
    attributes = write_attributes(geometry.shrink(forward.values, split, part))
    forward_inputs = cut_all(forward.inputs, forward.input_roles)
    if not node.gradient.shares_state:
        _check_forward_outputs(node, forward_inputs, attributes, inputs, geometry.pieces[split][part])
    return run_with_forward(node.gradient, attributes, forward_inputs, inputs, shapes)


def _check_forward_outputs(
    node: VerifiedNode,
    forward_inputs: Sequence[Array],
    attributes: Mapping[str, str],
    inputs: Sequence[Array],
    output_shapes: Sequence[Shape],
) -> None:
    assert node.gradient is not None
    outputs, _ = node.gradient.forward.run(attributes, forward_inputs, output_shapes)
    for position, output in node.gradient.forward_outputs.items():
        if not relative_error(outputs[output], inputs[position]) <= find_precision([inputs[position].dtype.name]):
            raise SplitError(f"input {position} differs from the value that the forward operator saves on a part")


TryGeometry = Callable[[VerifiedNode, Geometry, Sequence[bool]], Cut | None]
ListWindows = Callable[[VerifiedNode, Collection[int], Collection[int], bool], list[Geometry]]


def find_missing(
    case: Case, try_split: TryGeometry = try_geometry, list_windows: ListWindows = list_window_geometries
) -> tuple[Missing, ...]:
    """Return the correct splits of an operator and its gradient that Tofu does not offer.

    `try_split` tests a split. `list_windows` lists splits along windows. A kernel may crash the process.
    """
    nodes = execute_training_graph(case.op, case.attributes, case.draw_inputs(), case.wrt, seed=1)
    shrinks_attributes = not any(isinstance(numbers, Fixed) for numbers in case.numbers)
    free_inputs = [n for n, numbers in enumerate(case.numbers) if isinstance(numbers, Numbers) and not numbers.is_whole]
    geometries = [
        *list_geometries(nodes[0], case.indexed, shrinks_attributes),
        *list_windows(nodes[0], free_inputs, case.indexed, shrinks_attributes),
    ]
    return tuple(Missing(node.op, cut) for node in nodes for cut in _find_missing_cuts(node, geometries, try_split))


def _find_missing_cuts(node: VerifiedNode, geometries: Sequence[Geometry], try_split: TryGeometry) -> list[Cut]:
    description = DESCRIPTIONS.get(node.op)
    if description is None or None in (*node.input_roles, *node.output_roles):
        return []  # an intermediate node of the gradient, whose tensors are no input, output or gradient of the operator
    access = analyse_node(description, node)
    # An output of zeros, such as a label's gradient, is zero under any split, so it shows nothing.
    written = [
        output.is_written and bool(np.any(whole)) for output, whole in zip(access.outputs, node.outputs, strict=True)
    ]
    is_compared = [node.computes(n) and is_written for n, is_written in enumerate(written)]
    cuts = (try_split(node, geometry, is_compared) for geometry in geometries)
    return find_uncovered((cut for cut in cuts if cut is not None), access, written)
