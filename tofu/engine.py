"""The two protocols that connect the planner to a framework such as JAX.

A *front end* describes the framework's operators. A *backend* turns a plan into an *execution graph*, which the
framework runs on all workers (devices). An *engine* is a front end with a backend. `tofu.mxnet.engine`,
`tofu.jax.engine` and, for NumPy, `tests/numpy_engine` implement the protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tofu.graph import Graph, Operator
from tofu.lowering import LowerableOperators
from tofu.program import PlannedProgram, Program
from tofu.search import Choices
from tofu.search.native import FETCH_RULES, TransferRules


@dataclass(frozen=True)
class Source:
    """A training step that a front end has read from the user's model.

    Attributes
    ----------
    graph
        The step as a graph of operators and tensors. The graph is the same for all frameworks.
    native
        The step as an object of the framework. Only the backend reads this object.
    """

    graph: Graph
    native: Any = None


@dataclass(frozen=True)
class Measured:
    """The memory that each worker needs to run a plan, in bytes.

    Attributes
    ----------
    worker_bytes
        Bytes of the shards and buffers of each worker.
    predicted_bytes
        Predicted peak of the bytes in use on each worker, or None if `worker_bytes` is exact.
    """

    worker_bytes: tuple[int, ...]
    predicted_bytes: tuple[int, ...] | None = None

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """The largest number of bytes that each worker needs at any time."""
        return self.worker_bytes if self.predicted_bytes is None else self.predicted_bytes

    @property
    def is_predicted(self) -> bool:
        """True if `peak_bytes` is a prediction, False if it is exact."""
        return self.predicted_bytes is not None


class FrontEnd(LowerableOperators, Protocol):
    """Facts about a framework's operators, such as how each operator can be split."""

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Return True if `operator` draws random numbers. By default, no operator does.

        Dropout usually draws only if `for_training` is True.
        """
        return False


class Backend(Protocol):
    """Interface to build and measure the graphs that the framework runs on all workers (devices).

    Attributes
    ----------
    measured
        "memory" if `measure` counts all buffers, "arguments" if it counts only the arguments of the step.
    unmeasured
        The name of the memory that `measure` does not count, such as "workspace". Messages use it.
    """

    measured: str
    unmeasured: str

    def build(self, source: Source, program: PlannedProgram) -> Any:
        """Build the framework's graph that runs `program`. `source` is the training step."""

    def measure(self, source: Source, choices: Choices) -> Measured:
        """Return the memory that each worker needs for the split `choices`."""

    def predict_peak(self, source: Source, choices: Choices) -> tuple[int, ...] | None:
        """Predict the peak memory of each worker in bytes. Return None (the default) if `measure` is already exact."""
        return None

    def check(
        self,
        execution: Any,
        choices: Choices,
        worker_bytes: Sequence[int] | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError if `execution`, a graph from `build`, is wrong. This base method checks nothing.

        For example, the graph must transfer `communication_bytes` between workers.
        """
        return

    def measure_whole(self, source: Source) -> int:
        """Return the bytes that a single device needs for the whole step."""

    def predict_whole_peak(self, source: Source) -> int:
        """Predict the peak memory in bytes if a single device runs the whole step."""

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int] | None:
        """Return {operator number: bytes that its kernel reads and writes on a worker}.

        Return None (the default) if each operator runs as a separate kernel.
        """
        return None


@dataclass(frozen=True)
class Engine:
    """Front end, backend and transfer rules for a framework."""

    front_end: FrontEnd
    backend: Backend
    rules: TransferRules = FETCH_RULES
