"""`verify_operator`: verify an operator and the operators of its gradient, whole and in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import InputAccess, OperatorAccess, analyse
from tofu.errors import TofuError, UnsupportedError
from tofu.mxnet.verify.kernels import KERNEL_ERRORS
from tofu.mxnet.verify.nodes import VerifiedNode, execute_training_graph, run_with_forward, write_attributes
from tofu.mxnet.verify.whole import compare_whole
from tofu.tdl import Description, trace
from tofu.tdl.expression import OpaqueElement, Position
from tofu.tdl.tracing import Trace
from tofu.tdl.walk import walk
from tofu.verification.comparison import (
    Compared,
    Comparison,
    Relation,
    count_numbers,
    find_mismatches,
)
from tofu.verification.kernel import Array, Shape
from tofu.verification.report import TOLERANCE, NodeReport, Report, StrategyReport, find_precision
from tofu.verification.split import (
    Part,
    Range,
    SplitError,
    combine_outputs,
    count_parts,
    cut_input,
    find_region,
    list_parts,
    move_elements,
    region_shape,
    relative_error,
    split_range,
)

PARTS = (2, 3, 4)
"""Default numbers of parts into which an axis is split."""


def verify_operator(
    op: str,
    attributes: Mapping[str, object],
    inputs: Sequence[Shape | Array],
    parts: Sequence[int] = PARTS,
    wrt: Sequence[int] | None = None,
    relations: Mapping[str, Relation] | None = None,
    description_tolerance: float = TOLERANCE,
    seed: int = 0,
) -> Report:
    """Compare an operator, and the operators of its gradient, with their descriptions.

    Parameters
    ----------
    op, attributes
        Name of the operator in MXNet, and its attributes.
    inputs
        An array for each input and auxiliary state. A shape stands for random numbers between -1 and 1.
    parts
        Numbers of parts, such as (2, 3). For each number, the kernel runs on parts of unequal size along each axis.
    wrt
        Positions of the inputs whose gradients are computed. By default, all except auxiliary states.
    relations
        Functions for random operators, by name. A function takes inputs and outputs, and returns the expected outputs,
        or None for an output that the kernel does not write.
    seed
        Seed of random inputs and random output gradients.
    description_tolerance
        The largest allowed relative error.

    >>> verify_operator("FullyConnected", {"num_hidden": 5}, [(4, 6), (5, 6), (5,)]).is_verified
    True
    """
    random = np.random.RandomState(seed)
    arrays = [value if isinstance(value, np.ndarray) else random.uniform(-1, 1, value) for value in inputs]
    nodes = execute_training_graph(op, attributes, arrays, wrt, seed + 1)
    reports = [
        _Verification(node, parts, (relations or {}).get(node.op), description_tolerance).report() for node in nodes
    ]
    return Report(
        op, tuple(write_attributes(attributes).items()), tuple(array.shape for array in arrays), tuple(reports)
    )


class _Verification:
    def __init__(self, node: VerifiedNode, parts: Sequence[int], relation: Relation | None, tolerance: float) -> None:
        self.node = node
        self.precision = find_precision(array.dtype.name for array in (*node.inputs, *node.outputs))
        self.tolerance = max(tolerance, self.precision)
        self.parts = parts
        self.relation = relation
        self.output_shapes = [output.shape for output in node.outputs]
        self.compared_elements: Counter[int] = Counter()

    def report(self) -> NodeReport:
        description = DESCRIPTIONS.get(self.node.op)
        if description is None:
            return NodeReport(self.node.op, None, "not described", (), (), ("it has no description",))
        try:
            access = analyse_node(description, self.node)
        except UnsupportedError as refusal:
            return NodeReport(self.node.op, None, str(refusal), (), (), refused=str(refusal))
        except TofuError as problem:
            return NodeReport(self.node.op, None, "not analysed", (), (), (str(problem),))
        traced = _trace(description, self.node)
        whole = compare_whole(self.node, description, access, traced, self.relation, self.tolerance)
        unshared = self._find_unshared_axes(access)
        strategies = [self._check_strategy(access, n) for n, axis in enumerate(access.axes) if axis not in unshared]
        reason = "the forward operator, whose hidden state it shares, cannot be split along it"
        rejected = (*access.rejected, *((axis, reason) for axis in unshared))
        undeclared_changes = tuple(
            f"the kernel changes input {n}, which other operators may read later: name it in ListSpoiledInputs"
            for n in self.node.undeclared_changes
        )
        is_compared_by_parts = whole.error is None and self.relation is None
        compared_elements = self.compared_elements.items() if is_compared_by_parts else ()
        return NodeReport(
            self.node.op,
            whole.error,
            whole.checked,
            tuple(strategies),
            rejected,
            (*whole.problems, *undeclared_changes),
            is_elementwise=access.elementwise,
            is_opaque=_is_opaque(traced),
            outputs=tuple(n for n, output in enumerate(traced.outputs) if not output.is_scratch),
            compared=(*whole.compared, *(Comparison(n, Compared.PARTS, count) for n, count in compared_elements)),
        )

    def _find_unshared_axes(self, access: OperatorAccess) -> tuple[str, ...]:
        gradient = self.node.gradient
        description = DESCRIPTIONS.get(gradient.forward.op) if gradient is not None and gradient.shares_state else None
        if gradient is None or description is None:
            return ()
        forward_axes = analyse_node(description, gradient.forward).axes
        return tuple(axis for axis in access.axes if axis not in forward_axes)

    def _check_strategy(self, access: OperatorAccess, axis: int) -> StrategyReport:
        part_counts = [count for count in self.parts if count <= access.extents[axis]]
        errors, problems, elements_before = [0.0], list[str](), self.compared_elements.total()
        for count in part_counts:
            try:
                counts = count_parts(access, [axis], count)
                splits = {a: split_range(access.extents[a], n) for a, n in counts.items()}
                errors += self._run_in_parts(access, axis, splits)
            except (SplitError, *KERNEL_ERRORS) as error:  # noqa: PERF203  every number of parts is tried
                problems.append(f"in {count} parts: {str(error).strip().splitlines()[-1]}")
        if not max(errors) <= self._find_limit(access):
            problems.append(f"the parts are off by {max(errors):.1e}")
        combine = tuple(output.combine[axis].word for output in access.outputs)
        elements = self.compared_elements.total() - elements_before
        return StrategyReport(access.axes[axis], combine, tuple(part_counts), max(errors), tuple(problems), elements)

    def _find_limit(self, access: OperatorAccess) -> float:
        defaults = access.description.defaults
        # MXNet rounds attributes to single precision, so a part with another number in an attribute is less exact.
        has_bound_number = any(isinstance(defaults[name], float) for name in access.description.bound)
        return self.tolerance if has_bound_number else self.precision

    def _run_in_parts(self, access: OperatorAccess, axis: int, splits: Mapping[int, Sequence[Range]]) -> list[float]:
        parts = list_parts(splits)
        part_results = [self._run_part(access, axis, part) for part in parts]
        errors = []
        for number, (whole, written) in enumerate(zip(self.node.outputs, access.outputs, strict=True)):
            if not written.is_written or not self.node.computes(number) or self.relation is not None:
                continue
            if access.axes[axis] in self._list_axes_of_counts(access, number):
                continue  # only the gradient of the same part reads this output, and the gradient is compared
            pieces = [outputs[number] for outputs, _ in part_results]
            combined = combine_outputs(pieces, written, splits, access, whole.shape)
            self.compared_elements[number] += count_numbers(combined, whole)
            errors.append(relative_error(combined, whole))
        for position in self.node.mutated_inputs:
            changed_input = self.node.inputs_after[position]
            rows = access.inputs[position].rows
            for part, (_, inputs_after) in zip(parts, part_results, strict=True):
                region = find_region(rows, changed_input.shape, part, access.extents)
                expected = changed_input[tuple(slice(*span) for span in region)]
                errors.append(relative_error(inputs_after[position], expected))
        return errors

    def _list_axes_of_counts(self, access: OperatorAccess, number: int) -> set[str]:
        value = _trace(access.description, self.node).outputs[number].value
        if self.node.gradient is not None or value is None:
            return set()
        position_axes = [element.index.variables for element in walk(value) if isinstance(element, Position)]
        return set().union(*position_axes) & access.description.counts

    def _run_part(self, access: OperatorAccess, axis: int, part: Part) -> tuple[list[Array], list[Array]]:
        if access.axes[axis] in access.fetched_axes:
            return move_elements(self.node.inputs, access, part, self.output_shapes), list(self.node.inputs)
        inputs, shapes = _cut_node(self.node, access, access.inputs, part)
        attributes = _local_attributes(self.node, access, part, [array.shape for array in inputs], shapes)
        if self.node.gradient is not None:
            return self._run_part_with_forward(
                {access.axes[a]: each for a, each in part.items()}, inputs, shapes
            ), inputs
        outputs, inputs_after = self.node.run(attributes, inputs, shapes)
        if self.relation is not None:
            self._check_relation(inputs, outputs)
        return outputs, inputs_after

    def _check_relation(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        assert self.relation is not None
        for number in find_mismatches(self.relation(inputs, outputs), outputs, self.precision):
            raise SplitError(f"output {number} of a part does not match the random numbers drawn")
        self.compared_elements.update({n: output.size for n, output in enumerate(outputs)})

    def _run_part_with_forward(
        self, part_by_name: Mapping[str, Range], inputs: Sequence[Array], shapes: Sequence[Shape]
    ) -> list[Array]:
        gradient = self.node.gradient
        assert gradient is not None
        forward = gradient.forward
        description = DESCRIPTIONS.get(forward.op)
        access = analyse_node(description, forward) if description is not None else None
        missing = [name for name in part_by_name if access is None or name not in access.axes]
        if access is None or missing:
            raise SplitError(f"{forward.op} has no axis {missing[0]}, and both must be split in the same way")
        part = {access.axes.index(name): axis_range for name, axis_range in part_by_name.items()}
        # The backward operator may read inputs that the forward operator does not.
        all_inputs = [replace(read, is_read=True) for read in access.inputs]
        forward_inputs, forward_shapes = _cut_node(forward, access, all_inputs, part)
        forward_input_shapes = [array.shape for array in forward_inputs]
        self._check_shapes([array.shape for array in inputs], forward_input_shapes, forward_shapes)
        attributes = _local_attributes(forward, access, part, forward_input_shapes, forward_shapes)
        outputs = run_with_forward(gradient, attributes, forward_inputs, inputs, shapes)
        if self.relation is not None:
            part_outputs, _ = forward.run(attributes, forward_inputs, forward_shapes)
            part_inputs = list(inputs)
            for position, output in gradient.forward_outputs.items():
                part_inputs[position] = part_outputs[output]
            self._check_relation(part_inputs, outputs)
        return outputs

    def _check_shapes(
        self,
        input_shapes: Sequence[Shape],
        forward_input_shapes: Sequence[Shape],
        forward_output_shapes: Sequence[Shape],
    ) -> None:
        gradient = self.node.gradient
        assert gradient is not None
        pairs = [(position, forward_input_shapes[n]) for position, n in gradient.forward_inputs.items()]
        pairs += [(position, forward_output_shapes[n]) for position, n in gradient.forward_outputs.items()]
        for position, shape in pairs:
            if input_shapes[position] != shape:
                raise SplitError(
                    f"input {position} has a region of shape {input_shapes[position]}, but the forward operator's part has shape {shape}, "
                    "with which its kernel is run: name the elements, by unread() if it only uses the shape"
                )


def analyse_node(description: Description, node: VerifiedNode) -> OperatorAccess:
    """Return the ways to split the operator `node`."""
    inputs = [array.shape for array in node.inputs]
    return analyse(description, node.attributes, inputs, [array.shape for array in node.outputs])


def _trace(description: Description, node: VerifiedNode) -> Trace:
    shapes = [output.shape for output in node.outputs]
    inputs = [array.shape for array in node.inputs]
    return trace(description, node.attributes, inputs, [len(shape) for shape in shapes], shapes)


def _cut_node(
    node: VerifiedNode, access: OperatorAccess, reads: Sequence[InputAccess], part: Part
) -> tuple[list[Array], list[Shape]]:
    inputs = [cut_input(array, read, part, access.extents) for array, read in zip(node.inputs, reads, strict=True)]
    shapes = [
        region_shape(find_region(written.rows, output.shape, part, access.extents))
        for written, output in zip(access.outputs, node.outputs, strict=True)
    ]
    return inputs, shapes


def _is_opaque(traced: Trace) -> bool:
    values = [output.value for output in traced.outputs if output.value is not None]
    return any(isinstance(element, OpaqueElement) for value in values for element in walk(value))


def _local_attributes(
    node: VerifiedNode,
    access: OperatorAccess,
    part: Part,
    input_shapes: Sequence[Shape],
    output_shapes: Sequence[Shape],
) -> dict[str, str]:
    part_by_axis = {access.axes[axis]: axis_range for axis, axis_range in part.items()}
    return {**node.attributes, **access.worker_attributes(part_by_axis, input_shapes, output_shapes)}
