"""Cuts of MXNet's operators, tried with its own kernels: of a backward operator those of its forward operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tofu.mxnet.verify.kernels import KERNEL_ERRORS
from tofu.mxnet.verify.nodes import Node, run_with_forward, write_attributes
from tofu.verification.cuts import Cut, Geometry, Role, find_cut
from tofu.verification.kernel import Array, Shape
from tofu.verification.report import find_precision
from tofu.verification.split import SplitError, relative_error


def try_geometry(node: Node, geometry: Geometry, asked: Sequence[bool]) -> Cut | None:
    """How the outputs `asked` for come together, where they do and each part does less than the whole."""
    input_roles = [role for role in node.input_roles if role is not None]
    output_roles = [role for role in node.output_roles if role is not None]

    def run_part(split: int, part: int) -> list[Array] | None:
        try:
            return _run_part(node, geometry, split, part)
        except (SplitError, *KERNEL_ERRORS):
            return None

    return find_cut(geometry, node.outputs, (input_roles, output_roles), asked, run_part)


def _run_part(node: Node, geometry: Geometry, split: int, part: int) -> list[Array]:
    def cut(arrays: Sequence[Array], roles: Sequence[Role | None]) -> list[Array]:
        pairs = zip(arrays, roles, strict=True)
        return [geometry.cut(array, role, split, part) for array, role in pairs if role is not None]

    inputs = cut(node.inputs, node.input_roles)
    shapes = [array.shape for array in cut(node.outputs, node.output_roles)]
    if node.gradient is None:
        return node.run(write_attributes(geometry.shrink(node.values, split, part)), inputs, shapes)[0]
    forward = node.gradient.forward
    attributes = write_attributes(geometry.shrink(forward.values, split, part))
    forward_inputs = cut(forward.inputs, forward.input_roles)
    if not node.gradient.shares_state:
        _check_saved(node, forward_inputs, attributes, inputs, geometry.pieces[split][part])
    return run_with_forward(node.gradient, attributes, forward_inputs, inputs, shapes)


def _check_saved(
    node: Node,
    forward_inputs: Sequence[Array],
    attributes: Mapping[str, str],
    inputs: Sequence[Array],
    pieces: Sequence[Shape],
) -> None:
    """Raise SplitError where the forward operator saves something else on a part than for it: an absolute position, say."""
    assert node.gradient is not None
    outputs, _ = node.gradient.forward.run(attributes, forward_inputs, pieces)
    for position, output in node.gradient.saved.items():
        if not relative_error(outputs[output], inputs[position]) <= find_precision([inputs[position].dtype.name]):
            raise SplitError(f"input {position} is not what the forward operator saves on a part")
