"""Verify one JAX operation: the numbers that its description computes, and each way to split it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tdl_ops.jax import DESCRIPTIONS
from tofu.analysis import OperatorAccess, analyse, find_uneven_axes
from tofu.errors import TofuError, UnsupportedError
from tofu.jax.verify.nodes import EquationCase
from tofu.jax.verify.parts import find_error, run_in_parts
from tofu.tdl import Description, interpret, trace
from tofu.tdl.expression import OpaqueElement
from tofu.tdl.interpreter import TooManyPointsError
from tofu.tdl.walk import walk
from tofu.verification.comparison import Compared, Comparison, count_numbers
from tofu.verification.kernel import Array
from tofu.verification.report import TOLERANCE, NodeReport, StrategyReport, find_precision
from tofu.verification.split import count_parts, split_range

PARTS = (2, 3)
"""Each strategy is run with these numbers of parts. Pairs of strategies use only the first number.

If shards may overlap, a number that does not divide the extent is tested as well.
"""


@dataclass(frozen=True)
class VerifiedEquation:
    """Results of the checks of one equation (a JAX operation).

    `report` is about the equation's description, and about each split along one axis. `pairs` is about splits along two
    axes at once.
    """

    report: NodeReport
    pairs: tuple[StrategyReport, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages about all mistakes found."""
        refused = [f"refused: {self.report.refused}"] if self.report.refused else []
        split = [
            f"split {strategy.axis}: {text}"
            for strategy in (*self.report.strategies, *self.pairs)
            for text in strategy.problems
        ]
        return (*self.report.problems, *refused, *split)


def verify_node(node: EquationCase) -> VerifiedEquation:
    """Check a JAX operation's description, and every way to split the operation along one or two axes."""
    description = DESCRIPTIONS.get(node.op)
    if description is None:
        return VerifiedEquation(NodeReport(node.op, None, "not described", (), (), ("it has no description",)))
    try:
        access = analyse_node(description, node)
    except UnsupportedError as refusal:
        return VerifiedEquation(NodeReport(node.op, None, str(refusal), (), (), refused=str(refusal)))
    except TofuError as problem:
        return VerifiedEquation(NodeReport(node.op, None, "not analysed", (), (), (str(problem),)))
    report = _compare_numbers(node, description)
    axes = [axis for axis, extent in enumerate(access.extents) if extent > 1]
    strategies = tuple(_check_split(node, access, (axis,), PARTS) for axis in axes)
    pairs = tuple(_check_split(node, access, pair, PARTS[:1]) for pair in combinations(axes, 2))
    by_parts = report.description_error is None and bool(strategies)
    compared = [Comparison(n, Compared.PARTS, output.size) for n, output in enumerate(node.outputs)]
    report = replace(
        report,
        strategies=strategies,
        rejected=access.rejected,
        is_elementwise=access.elementwise,
        is_opaque=_is_opaque(description, node),
        outputs=tuple(range(len(node.outputs))),
        compared=tuple(compared) if by_parts else report.compared,
    )
    return VerifiedEquation(report, pairs)


def analyse_node(description: Description, node: EquationCase) -> OperatorAccess:
    """Return the ways to split a JAX operation according to its description."""
    return analyse(description, node.attributes, [x.shape for x in node.inputs], [x.shape for x in node.outputs])


def _compare_numbers(node: EquationCase, description: Description) -> NodeReport:
    report = NodeReport(node.op, None, "", (), ())
    has_keys = any(type_.is_key for type_ in (*node.types, *node.output_types))
    if has_keys or not all(map(_is_exact, (*node.inputs, *node.outputs))):
        reason = "not executed: keys and large integers are no numbers of the interpreter's"
        return replace(report, checked=reason)
    try:
        computed = interpret(description, node.attributes, node.inputs, [output.shape for output in node.outputs])
    except TooManyPointsError:
        raise
    except TofuError as error:
        return replace(report, checked=f"not executed: {error}")
    limit = max(TOLERANCE, find_precision(array.dtype.name for array in (*node.inputs, *node.outputs)))
    pairs = list(enumerate(zip(computed, node.outputs, strict=True)))
    errors = {n: find_error(_round_integers(value, output), output) for n, (value, output) in pairs}
    too_large = {n: error for n, error in errors.items() if not error <= limit}
    problems = tuple(f"output {n} of the description is off by {error:.1e}" for n, error in too_large.items())
    compared = tuple(Comparison(n, Compared.NUMBERS, count_numbers(value, output)) for n, (value, output) in pairs)
    return replace(report, description_error=max(errors.values(), default=0.0), problems=problems, compared=compared)


def _is_exact(array: Array) -> bool:
    return array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or bool((np.abs(array.astype(float)) < 2**53).all())


def _round_integers(value: Array, reference: Array) -> Array:
    return value.astype(reference.dtype) if reference.dtype.kind in "biu" else value


def _check_split(
    node: EquationCase, access: OperatorAccess, axes: tuple[int, ...], counts: Sequence[int]
) -> StrategyReport:
    limit = find_precision(array.dtype.name for array in (*node.inputs, *node.outputs))
    errors, problems, compared_count = [0.0], list[str](), 0
    least_extent = min(access.extents[axis] for axis in axes)
    equal_counts = [count_parts(access, axes, count) for count in counts if count <= least_extent]
    overlapping = _list_overlapping(access, axes, equal_counts)
    for n, numbers in enumerate((*equal_counts, *overlapping)):
        splits = {axis: split_range(access.extents[axis], count) for axis, count in numbers.items()}
        try:
            combined = run_in_parts(node, access, splits, overlapping=n >= len(equal_counts))
        except Exception as error:  # JAX may reject shards with any error
            text = str(error).strip() or type(error).__name__
            problems.append(f"in {' x '.join(map(str, numbers.values()))} parts: {text.splitlines()[0]}")
            continue
        errors += [find_error(output, reference) for output, reference in zip(combined, node.outputs, strict=True)]
        compared_count += sum(map(count_numbers, combined, node.outputs))
    if not max(errors) <= limit:
        problems.append(f"the parts are off by {max(errors):.1e}")
    combine = tuple(" and ".join(output.combine[axis].word for axis in axes) for output in access.outputs)
    parts = tuple(n for numbers in equal_counts for n in numbers.values())
    name = " x ".join(access.axes[axis] for axis in axes)
    return StrategyReport(name, combine, parts, max(errors), tuple(problems), compared_count, bool(overlapping))


def _list_overlapping(
    access: OperatorAccess, axes: tuple[int, ...], equal_counts: Sequence[dict[int, int]]
) -> list[dict[int, int]]:
    if any(access.axes[axis] in access.fetched_axes for axis in axes):
        return []
    uneven, extents = find_uneven_axes(access), access.extents
    least_counts = count_parts(access, axes, 0)
    least_counts |= {
        axis: _find_part_count(extents[axis], has_remainder=axis in uneven)
        for axis, count in least_counts.items()
        if count == 0
    }
    candidates = [least_counts, *(counts for counts in equal_counts if counts != least_counts)]
    overlapping = []
    for counts in candidates:
        remainder_axes = {axis for axis, count in counts.items() if extents[axis] % count}
        if remainder_axes and remainder_axes <= set(uneven):
            overlapping.append(counts)
    return overlapping


def _find_part_count(extent: int, has_remainder: bool) -> int:
    counts = range(2, extent + 1)
    return next((n for n in counts if has_remainder and extent % n), next(n for n in counts if extent % n == 0))


def _is_opaque(description: Description, node: EquationCase) -> bool:
    shapes = [output.shape for output in node.outputs]
    traced = trace(description, node.attributes, [x.shape for x in node.inputs], [len(s) for s in shapes], shapes)
    values = [output.value for output in traced.outputs if output.value is not None]
    return any(isinstance(element, OpaqueElement) for value in values for element in walk(value))
