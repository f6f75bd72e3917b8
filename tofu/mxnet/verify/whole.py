"""Compare a kernel's results on whole inputs with the operator's description or with a relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tofu.analysis import OperatorAccess
from tofu.errors import TofuError
from tofu.mxnet.verify.nodes import VerifiedNode
from tofu.tdl import Description, interpret
from tofu.tdl.interpreter import TooManyPointsError
from tofu.tdl.tracing import Trace
from tofu.verification.comparison import (
    Compared,
    Comparison,
    Relation,
    count_numbers,
    count_overwritten,
    count_related,
    find_mismatches,
)
from tofu.verification.kernel import Array
from tofu.verification.split import relative_error


@dataclass(frozen=True)
class WholeComparison:
    """Result of comparing an operator's outputs with its description.

    `error` is the largest difference, or None if the outputs were checked in another way (`checked`).
    """

    error: float | None
    checked: str
    problems: tuple[str, ...] = ()
    compared: tuple[Comparison, ...] = ()


def compare_whole(
    node: VerifiedNode,
    description: Description,
    access: OperatorAccess,
    traced: Trace,
    relation: Relation | None,
    tolerance: float,
) -> WholeComparison:
    """Compare all computed outputs with the description, and check which elements the kernel wrote."""
    computed = [n for n, output in enumerate(traced.outputs) if node.computes(n) and not output.is_scratch]
    written = [n for n in computed if access.outputs[n].is_written]
    unwritten = [n for n in computed if n not in written]
    if relation is None:
        result = _compare_numbers(node, description, written, tolerance)
    else:
        expected = relation(node.inputs, node.outputs)
        unwritten += [n for n in written if expected[n] is None]
        written = [n for n in written if expected[n] is not None]
        result = _compare_relation(node, relation, expected, written, tolerance)
    problems = [
        f"output {n}: the kernel does not write {count} of {node.outputs[n].size} elements"
        for n in written
        if (count := int(node.unwritten[n].sum()))
    ]
    problems += [
        f"output {n} is called unwritten, but the kernel writes {count} of its {node.outputs[n].size} elements"
        for n in unwritten
        if (count := count_overwritten(node.outputs[n], node.unwritten[n]))
    ]
    compared = (Comparison(n, Compared.UNWRITTEN, node.outputs[n].size) for n in unwritten)
    return replace(result, problems=(*result.problems, *problems), compared=(*result.compared, *compared))


def _compare_numbers(
    node: VerifiedNode, description: Description, outputs: Sequence[int], tolerance: float
) -> WholeComparison:
    try:
        expected = interpret(description, node.attributes, node.inputs, [output.shape for output in node.outputs])
    except TooManyPointsError:
        raise
    except TofuError as error:
        return WholeComparison(None, f"not executed: {error}")
    errors = {n: relative_error(_round_like(expected[n], node.outputs[n]), node.outputs[n]) for n in outputs}
    problems = (
        f"output {n} of the description is off by {error:.1e}" for n, error in errors.items() if not error <= tolerance
    )
    compared = (Comparison(n, Compared.NUMBERS, count_numbers(expected[n], node.outputs[n])) for n in outputs)
    return WholeComparison(max(errors.values(), default=0.0), "", tuple(problems), tuple(compared))


def _compare_relation(
    node: VerifiedNode, relation: Relation, expected: Sequence[Array | None], outputs: Sequence[int], tolerance: float
) -> WholeComparison:
    checked = "a relation between all that it reads and writes"
    mismatches = find_mismatches(expected, node.outputs, tolerance)
    if mismatches:
        problems = [
            f"output {n} does not fit the relation: it is off by {error:.1e}" for n, error in mismatches.items()
        ]
        return WholeComparison(None, checked, tuple(problems))
    counts = {n: count_related(relation, node.inputs, node.outputs, n, tolerance) for n in outputs}
    problems = [
        f"output {n} is compared with nothing: the relation holds whatever it is" for n in outputs if not counts[n]
    ]
    compared = (Comparison(n, Compared.RELATION, count) for n, count in counts.items())
    return WholeComparison(None, checked, tuple(problems), tuple(compared))


def _round_like(value: Array, output: Array) -> Array:
    return value if output.dtype.kind == "f" else np.asarray(value).astype(output.dtype)
