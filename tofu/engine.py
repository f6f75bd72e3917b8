"""The two protocols that connect the planner to a framework such as JAX.

A *front end* describes the framework's operators. A *backend* turns a plan into an *execution graph*, which the
framework runs on all workers (devices). An *engine* is a front end with a backend. `tofu.mxnet.engine`,
`tofu.jax.engine` and, for NumPy, `tests/numpy_engine` implement the protocols.
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
    """Interface to a framework's operators: how they can be split or replaced."""

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Return True if an operator draws random numbers: in training, or in inference if `for_training` is False."""


class Backend(Protocol):
    """Interface to a framework's execution graphs, which run on all workers.

    Attributes
    ----------
    measured
        "memory" if `measure` counts all buffers, "arguments" if it counts only the arguments of the step.
    unmeasured
        A word in messages for memory that `measure` does not count, such as "workspace".
    """

    measured: str
    unmeasured: str

    def build(self, source: Source, program: PlannedProgram) -> Any:
        """Return the execution graph that runs `program`. `source` is the training step that was planned."""

    def measure(self, source: Source, choices: Choices) -> Measured:
        """Return the memory that each worker needs if the step is split by `choices`, without building a graph."""

    def predict_peak(self, build: Callable[[], Any]) -> tuple[int, ...] | None:
        """Predict the peak bytes of each worker, or return None if `measure` counts them exactly.

        `build` builds the execution graph.
        """

    def check(
        self,
        execution: Any,
        choices: Choices,
        worker_bytes: Sequence[int] | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError if the execution graph `execution` is wrong.

        For example, workers must read `communication_bytes` from each other, and need `worker_bytes` of memory.
        """

    def measure_whole(self, source: Source) -> int:
        """Return the bytes that one device needs if it runs the whole step alone."""

    def predict_whole_peak(self, source: Source) -> int:
        """Return the predicted peak of the bytes in use if one device runs the whole step alone."""

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int] | None:
        """Return the bytes that each kernel reads and writes on a worker, by the number of its operator.

        Return None if the framework never combines operators in one kernel.
        """


@dataclass(frozen=True)
class Engine:
    """The front end and the backend of a framework, and the rules by which the framework splits and transfers data."""

    front_end: FrontEnd
    backend: Backend
    rules: TransferRules = FETCH_RULES
