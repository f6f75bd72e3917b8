"""One equation, whole and in parts: its description's numbers, each of its strategies, and each pair of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tdl_ops.jax import DESCRIPTIONS
from tofu.analysis import OperatorAccess, analyse, find_uneven_axes
from tofu.errors import TofuError, UnsupportedError
from tofu.jax.verify.nodes import Node
from tofu.jax.verify.parts import find_error, run_in_overlapping_parts, run_in_parts
from tofu.tdl import Description, interpret, trace
from tofu.tdl.expression import OpaqueElement
from tofu.tdl.interpreter import TooManyPointsError
from tofu.tdl.walk import walk
from tofu.verification.comparison import Compared, Comparison, count_numbers
from tofu.verification.kernel import Array
from tofu.verification.report import TOLERANCE, NodeReport, StrategyReport, find_precision
from tofu.verification.split import Range, split_range

PARTS = (2, 3)
"""The numbers of parts in which each strategy is carried out, where its axis has as many positions; pairs in two by two."""


@dataclass(frozen=True)
class Verified:
    """What was found out about one equation: the report on its description and strategies, and those on pairs of strategies."""

    report: NodeReport
    pairs: tuple[StrategyReport, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that disagrees with the primitive."""
        refused = [f"refused: {self.report.refused}"] if self.report.refused else []
        split = [f"split {one.axis}: {text}" for one in (*self.report.strategies, *self.pairs) for text in one.problems]
        return (*self.report.problems, *refused, *split)


def verify_node(node: Node) -> Verified:
    """Verify one equation. What its description refuses, or the primitive contradicts, stands in the report."""
    description = DESCRIPTIONS.get(node.op)
    if description is None:
        return Verified(NodeReport(node.op, None, "not described", (), (), ("it has no description",)))
    try:
        access = analyse_node(description, node)
    except UnsupportedError as refusal:
        return Verified(NodeReport(node.op, None, str(refusal), (), (), refused=str(refusal)))
    except TofuError as problem:
        return Verified(NodeReport(node.op, None, "not analysed", (), (), (str(problem),)))
    report = _compare_whole(node, description)
    extents = {axis: extent for axis, extent in enumerate(access.extents) if extent > 1}
    strategies = tuple(
        _check_split(node, access, [{axis: split_range(extent, n)} for n in PARTS if n <= extent])
        for axis, extent in extents.items()
    )
    pairs = tuple(
        _check_split(node, access, [{axis: split_range(extents[axis], 2) for axis in pair}])
        for pair in combinations(extents, 2)
    )
    by_parts = report.description_error is None and bool(strategies)
    compared = [Comparison(n, Compared.PARTS, whole.size) for n, whole in enumerate(node.outputs)]
    report = replace(
        report,
        strategies=strategies,
        rejected=access.rejected,
        is_elementwise=access.elementwise,
        is_opaque=_is_opaque(description, node),
        outputs=tuple(range(len(node.outputs))),
        compared=tuple(compared) if by_parts else report.compared,
    )
    return Verified(report, pairs)


def analyse_node(description: Description, node: Node) -> OperatorAccess:
    """The strategies of an equation by its description."""
    return analyse(description, node.attributes, [x.shape for x in node.inputs], [x.shape for x in node.outputs])


def _compare_whole(node: Node, description: Description) -> NodeReport:
    """The description's numbers, where it can be executed, against those of the primitive."""
    blank = NodeReport(node.op, None, "", (), ())
    if node.has_keys or not all(map(_is_exact, (*node.inputs, *node.outputs))):
        return replace(blank, checked="not executed: keys and large integers are no numbers of the interpreter's")
    try:
        found = interpret(description, node.attributes, node.inputs, [whole.shape for whole in node.outputs])
    except TooManyPointsError:
        raise
    except TofuError as error:
        return replace(blank, checked=f"not executed: {error}")
    limit = max(TOLERANCE, find_precision(array.dtype.name for array in (*node.inputs, *node.outputs)))
    pairs = list(enumerate(zip(found, node.outputs, strict=True)))
    errors = {n: find_error(_round(value, whole), whole) for n, (value, whole) in pairs}
    problems = [f"output {n} of the description is off by {e:.1e}" for n, e in errors.items() if not e <= limit]
    compared = [Comparison(n, Compared.NUMBERS, count_numbers(value, whole)) for n, (value, whole) in pairs]
    return replace(
        blank,
        description_error=max(errors.values(), default=0.0),
        problems=tuple(problems),
        compared=tuple(compared),
    )


def _is_exact(array: Array) -> bool:
    """Whether the interpreter, whose numbers are of double precision, can have these."""
    return array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or bool((np.abs(array.astype(float)) < 2**53).all())


def _round(value: Array, whole: Array) -> Array:
    """A description's numbers in the type of the primitive's, where that is no floating-point type."""
    return value.astype(whole.dtype) if whole.dtype.kind in "biu" else value


def _check_split(node: Node, access: OperatorAccess, tried: Sequence[Mapping[int, Sequence[Range]]]) -> StrategyReport:
    """The primitive on parts, split in each of several ways by the same axes, against the primitive on the whole."""
    limit = find_precision(array.dtype.name for array in (*node.inputs, *node.outputs))
    errors, problems, cells = [0.0], list[str](), 0
    for splits in tried:
        counts = " x ".join(str(len(ranges)) for ranges in splits.values())
        for run in (run_in_parts, run_in_overlapping_parts) if _may_overlap(access, splits) else (run_in_parts,):
            try:
                together = run(node, access, splits)
            except Exception as error:  # whatever JAX says of parts that it does not take
                text = str(error).strip() or type(error).__name__
                problems.append(f"in {counts} parts: {text.splitlines()[0]}")
                continue
            errors += [find_error(ours, whole) for ours, whole in zip(together, node.outputs, strict=True)]
            cells += sum(map(count_numbers, together, node.outputs))
    if not max(errors) <= limit:
        problems.append(f"the parts are off by {max(errors):.1e}")
    axes = tuple(tried[0])
    combine = tuple(" ".join(output.combine[axis].name for axis in axes) for output in access.outputs)
    parts = tuple(len(ranges) for splits in tried for ranges in splits.values())
    return StrategyReport(" x ".join(access.axes[a] for a in axes), combine, parts, max(errors), tuple(problems), cells)


def _may_overlap(access: OperatorAccess, splits: Mapping[int, Sequence[Range]]) -> bool:
    """Whether an engine that needs equal parts gives workers parts that overlap."""
    is_uneven = any(len({end - begin for begin, end in ranges}) > 1 for ranges in splits.values())
    is_fetched = any(access.axes[axis] in access.fetched_axes for axis in splits)
    return is_uneven and not is_fetched and set(splits) <= set(find_uneven_axes(access))


def _is_opaque(description: Description, node: Node) -> bool:
    shapes = [output.shape for output in node.outputs]
    traced = trace(description, node.attributes, [x.shape for x in node.inputs], [len(s) for s in shapes], shapes)
    values = [output.value for output in traced.outputs if output.value is not None]
    return any(isinstance(one, OpaqueElement) for value in values for one in walk(value))
