"""What a verification found, as frozen values that print as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tofu.verification.comparison import Compared, Comparison, find_kind

TOLERANCE = 1e-10
"""The largest relative error that reassociation of float64 sums may cause."""

LOW_PRECISION_TOLERANCES = {"float32": 1e-5, "complex64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""The same for kernels that there are in these types alone."""


def find_precision(dtypes: Iterable[str]) -> float:
    """The largest relative error that is expected of numbers of these types."""
    return max((LOW_PRECISION_TOLERANCES.get(dtype, TOLERANCE) for dtype in dtypes), default=TOLERANCE)


@dataclass(frozen=True)
class StrategyReport:
    """One axis of one operator. `combine` says for each output how the parts came together.

    `largest_error` is relative to the largest magnitude of the output; 0 means bitwise equal. `cells` of the outputs were compared, in all
    numbers of parts together. `overlaps`: among them are parts that overlap, as an engine that needs equal ones makes them.
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
        return f"split {self.axis:<6} in {', '.join(map(str, self.parts))}: {' '.join(self.combine)}, {state}{problems}"


@dataclass(frozen=True)
class NodeReport:
    """One operator: its description against the kernel, and each strategy.

    `description_error` is None where the description cannot be executed (random, opaque); `checked` says what was checked instead.
    `refused` is what a description says that does not cover these attributes. `is_elementwise` and `is_opaque` are of the description.
    `compared` says with what each output was compared; all of `outputs` have to be, at some signature: scratch is not among them.
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
        """With what the operator was compared at this signature."""
        return find_kind(self.compared)

    @property
    def compared_outputs(self) -> frozenset[int]:
        """Those of which any cell was compared."""
        return frozenset(one.output for one in self.compared if one.cells)

    def __repr__(self) -> str:
        numbers = self.checked if self.description_error is None else f"description error {self.description_error:.0e}"
        lines = [f"{self.op}: {numbers}", *(f"  {strategy}" for strategy in self.strategies)]
        lines += [f"  no strategy {axis}: {reason}" for axis, reason in self.rejected]
        return "\n".join(lines + [f"  PROBLEM {problem}" for problem in self.problems])


@dataclass(frozen=True)
class Report:
    """The verification of one operator and the operators of its gradient, at one signature."""

    op: str
    attributes: tuple[tuple[str, str], ...]
    shapes: tuple[tuple[int, ...], ...]
    nodes: tuple[NodeReport, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that disagreed with the kernel; empty when the operator is verified."""
        found = []
        for node in self.nodes:
            found += [f"{node.op}: {problem}" for problem in node.problems]
            found += [f"{node.op}, split {s.axis}: {problem}" for s in node.strategies for problem in s.problems]
        return tuple(found)

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the descriptions say that do not cover these attributes."""
        return tuple(f"{node.op}: {node.refused}" for node in self.nodes if node.refused)

    @staticmethod
    def of_problem(op: str, problem: str) -> Report:
        """The report on an operator that could not be verified."""
        return Report(op, (), (), (NodeReport(op, None, "not verified", (), (), (problem,)),))

    @property
    def is_verified(self) -> bool:
        """Whether all operators are described at this signature, and descriptions and strategies agree with the kernels."""
        return not self.problems and not self.refusals

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}={value}" for name, value in self.attributes)
        head = f"{self.op}({attributes}) on {', '.join(map(str, self.shapes))}"
        return "\n".join([head, *(f"  {line}" for node in self.nodes for line in repr(node).splitlines())])
