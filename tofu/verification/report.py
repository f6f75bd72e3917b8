"""Store the results of a verification, and print them as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tofu.verification.comparison import Compared, Comparison, find_kind

TOLERANCE = 1e-10
"""Largest relative error of float64 results. The error is not 0 because sums may be computed in another order."""

LOW_PRECISION_TOLERANCES = {"float32": 1e-5, "complex64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Largest relative error for kernels that support only these types."""


def find_precision(dtypes: Iterable[str]) -> float:
    """Return the largest relative error to expect for numbers of these types."""
    return max(map(_find_tolerance, dtypes), default=TOLERANCE)


def _find_tolerance(dtype: str) -> float:
    mantissa = re.search(r"_e\d+m(\d+)", dtype)  # as in float8_e5m2
    return 2.0 ** -int(mantissa[1]) if mantissa else LOW_PRECISION_TOLERANCES.get(dtype, TOLERANCE)


@dataclass(frozen=True)
class StrategyReport:
    """The result of running an operator in parts along one axis.

    Attributes
    ----------
    combine
        For each output, how the parts' results were combined, such as "concatenated".
    largest_error
        The largest error, relative to the largest magnitude of the output. 0 means bitwise equal.
    cells
        The number of output elements that were compared, in all runs.
    overlaps
        True if parts overlap, because the framework needs equal parts of a length that is not divisible.
    """

    axis: str
    combine: tuple[str, ...]
    parts: tuple[int, ...]
    largest_error: float
    problems: tuple[str, ...] = ()
    cells: int = 0
    overlaps: bool = False

    def __repr__(self) -> str:
        state = f"error {self.largest_error:.0e}" if self.largest_error else "bitwise equal"
        problems = f"  {'; '.join(self.problems)}" if self.problems else ""
        return (
            f"split {self.axis:<6} in {', '.join(map(str, self.parts))}: {', '.join(self.combine)}, {state}{problems}"
        )


@dataclass(frozen=True)
class NodeReport:
    """The result of verifying one operator: its description compared with the kernel, and a report for each axis.

    Attributes
    ----------
    description_error
        The largest error of the description's numbers. If it is None, `checked` names another check.
    refused
        The reason why the description does not cover these attributes, or "".
    is_elementwise
        True if each output element depends on one element of each input.
    is_opaque
        True if the description has no formula.
    outputs
        The outputs that need a comparison. Scratch memory is left out.
    compared
        How each output was compared, and in how many elements.
    """

    op: str
    description_error: float | None
    checked: str
    strategies: tuple[StrategyReport, ...]
    rejected: tuple[tuple[str, str], ...]
    problems: tuple[str, ...] = ()
    refused: str = ""
    is_elementwise: bool = False
    is_opaque: bool = False
    outputs: tuple[int, ...] = ()
    compared: tuple[Comparison, ...] = ()

    @property
    def kind(self) -> Compared:
        """The way in which the outputs were compared. If there are several ways, the least reliable."""
        return find_kind(self.compared)

    @property
    def compared_outputs(self) -> frozenset[int]:
        """The outputs with at least one compared element."""
        return frozenset(comparison.output for comparison in self.compared if comparison.cells)

    def __repr__(self) -> str:
        numbers = self.checked if self.description_error is None else f"description error {self.description_error:.0e}"
        lines = [f"{self.op}: {numbers}", *(f"  {strategy}" for strategy in self.strategies)]
        lines += [f"  no strategy {axis}: {reason}" for axis, reason in self.rejected]
        return "\n".join(lines + [f"  PROBLEM {problem}" for problem in self.problems])


@dataclass(frozen=True)
class Report:
    """Result of verifying an operator and its gradient for one choice of attributes and shapes."""

    op: str
    attributes: tuple[tuple[str, str], ...]
    shapes: tuple[tuple[int, ...], ...]
    nodes: tuple[NodeReport, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each disagreement between a description and a kernel."""
        problems = []
        for node in self.nodes:
            problems += [f"{node.op}: {problem}" for problem in node.problems]
            problems += [f"{node.op}, split {s.axis}: {problem}" for s in node.strategies for problem in s.problems]
        return tuple(problems)

    @property
    def refusals(self) -> tuple[str, ...]:
        """The reasons why descriptions do not cover the operators' attributes."""
        return tuple(f"{node.op}: {node.refused}" for node in self.nodes if node.refused)

    @staticmethod
    def of_problem(op: str, problem: str) -> Report:
        """Return a report for an operator that could not be verified. `problem` is the reason."""
        return Report(op, (), (), (NodeReport(op, None, "not verified", (), (), (problem,)),))

    @property
    def is_verified(self) -> bool:
        """True if descriptions cover all operators in this report, and agree with the kernels."""
        return not self.problems and not self.refusals

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}={value}" for name, value in self.attributes)
        head = f"{self.op}({attributes}) on {', '.join(map(str, self.shapes))}"
        return "\n".join([head, *(f"  {line}" for node in self.nodes for line in repr(node).splitlines())])
