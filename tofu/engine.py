"""The two protocols that connect the planner to a framework.

A *front end* describes the framework's operators. A *backend* turns a plan into an *execution graph*, which is what the
framework runs on all workers. Both together are an *engine*. `tofu.mxnet.engine` and `tofu.jax.engine` implement the
protocols. So does a NumPy engine in the tests, which shows that the protocols do not depend on a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tofu.graph import Graph, Operator
from tofu.lowering import LowerableOperators
from tofu.program import PlannedProgram, Program
from tofu.search import Choices
from tofu.search.native import FETCHES, Moves


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
        The predicted peak, if `worker_bytes` does not include all memory of a step; otherwise None.
    """

    worker_bytes: tuple[int, ...]
    predicted_bytes: tuple[int, ...] | None = None

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """The most bytes that each worker needs at any time."""
        return self.worker_bytes if self.predicted_bytes is None else self.predicted_bytes

    @property
    def is_predicted(self) -> bool:
        """True if the peak is a prediction."""
        return self.predicted_bytes is not None


class FrontEnd(LowerableOperators, Protocol):
    """Front end of a framework, which knows how operators can be split or replaced, and which draw random numbers."""

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Return True if an operator draws random numbers in training or, without `for_training`, in inference."""


class Backend(Protocol):
    """Builder of execution graphs, which also measures and checks them before they run.

    Attributes
    ----------
    measured
        Names the bytes that `measure` returns: "memory" or "arguments".
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
        """Return the peak bytes of one device for the whole step, including memory that can only be predicted."""

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int] | None:
        """Return the bytes that the kernel of each operator reads and writes on a worker, for a framework that fuses operators.

        Operators that are computed inside another kernel are left out. Returns None if each operator is one kernel,
        which reads its inputs and writes its outputs.
        """


@dataclass(frozen=True)
class Engine:
    """Front end and backend of a framework, and the rules by which it moves data between workers."""

    front_end: FrontEnd
    backend: Backend
    moves: Moves = FETCHES
