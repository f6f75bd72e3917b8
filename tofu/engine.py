"""The two protocols that connect the planner to a framework.

A *front end* describes the framework's operators. A *backend* turns a plan into an *execution graph*, which the
framework runs on all workers. An *engine* has one of each. `tofu.mxnet.engine`, `tofu.jax.engine` and, for NumPy,
`tests/numpy_engine` implement the protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tofu.graph import Graph, Operator
from tofu.lowering import LowerableOperators
from tofu.program import PlannedProgram, Program
from tofu.search import Choices
from tofu.search.native import FETCH_RULES, TransferRules


@dataclass(frozen=True)
class Source:
    """Training step as the engine read it.

    Attributes
    ----------
    graph
        The step as a graph of operators and tensors, which does not depend on the framework.
    native
        The step in the framework's own form, which only the backend reads.
    """

    graph: Graph
    native: Any = None


@dataclass(frozen=True)
class Measured:
    """Memory that a plan needs, in bytes for each worker.

    Attributes
    ----------
    worker_bytes
        The shards and buffers that the backend allocates.
    predicted_bytes
        The predicted peak. None if `worker_bytes` is already the peak.
    """

    worker_bytes: tuple[int, ...]
    predicted_bytes: tuple[int, ...] | None = None

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """The largest number of bytes that each worker needs at any time."""
        return self.worker_bytes if self.predicted_bytes is None else self.predicted_bytes

    @property
    def is_predicted(self) -> bool:
        """True if the peak is a prediction."""
        return self.predicted_bytes is not None


class FrontEnd(LowerableOperators, Protocol):
    """Front end of a framework, which describes how its operators can be split or replaced."""

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Return True if an operator draws random numbers, either in training or in inference."""


class Backend(Protocol):
    """Builder of execution graphs, which also measures their memory and checks them.

    Attributes
    ----------
    measured
        The memory that `measure` returns: "memory" for all buffers, or "arguments".
    unmeasured
        The name of the memory that `measure` leaves out.
    """

    measured: str
    unmeasured: str

    def build(self, source: Source, program: PlannedProgram) -> Any:
        """Return the execution graph of a program."""

    def measure(self, source: Source, choices: Choices) -> Measured:
        """Return the memory that the workers need, without allocating any.

        Plans are measured without their execution graph, which is large for many workers.
        """

    def predict_peak(self, build: Callable[[], Any]) -> tuple[int, ...] | None:
        """Return the predicted peak of each worker in bytes, or None if the measured bytes are the peak.

        `build` returns the execution graph.
        """

    def check(
        self,
        execution: Any,
        choices: Choices,
        worker_bytes: Sequence[int] | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError if an execution graph fails a check.

        Workers must need `worker_bytes`, as far as the backend can tell from the graph, and read `communication_bytes`.
        """

    def measure_whole(self, source: Source) -> int:
        """Return the bytes that one device needs for the whole step."""

    def predict_whole_peak(self, source: Source) -> int:
        """Return the predicted peak, in bytes, of one device that runs the whole step."""

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int] | None:
        """Return the bytes that the kernel of each operator reads and writes on a worker, for frameworks that fuse operators.

        Operators that are fused into another kernel are left out. None means that each operator is one kernel.
        """


@dataclass(frozen=True)
class Engine:
    """Front end and backend of a framework, and its rules for splitting and transferring data."""

    front_end: FrontEnd
    backend: Backend
    rules: TransferRules = FETCH_RULES
