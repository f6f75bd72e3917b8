"""Protocols of an engine: a front end reads a framework's programs, a backend builds and measures plans.

`tofu.mxnet.engine` and `tofu.jax.engine` implement them; so does a NumPy engine in the tests, which keeps them
independent of frameworks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tofu.graph import Graph, Operator
from tofu.lowering import LowerableOperators
from tofu.program import PlannedProgram, Program
from tofu.search import Choices
from tofu.search.native import FETCHES, Moves


@dataclass(frozen=True)
class Source:
    """Training step as the engine read it: the semantic graph, and `native`, the framework's own form of it for the backend."""

    graph: Graph
    native: Any = None


@dataclass(frozen=True)
class Measured:
    """Memory that an execution graph needs, in bytes of each worker.

    Attributes
    ----------
    worker_bytes
        Shards and buffers that the backend plans.
    planned
        The backend's own plan of them, for its checks.
    predicted_bytes
        The predicted peak, if the planned bytes lack some.
    """

    worker_bytes: tuple[int, ...]
    planned: Any = None
    predicted_bytes: tuple[int, ...] | None = None

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """The most bytes at any time."""
        return self.worker_bytes if self.predicted_bytes is None else self.predicted_bytes

    @property
    def is_predicted(self) -> bool:
        """True if the peak is a prediction."""
        return self.predicted_bytes is not None


class FrontEnd(LowerableOperators, Protocol):
    """A framework's operators, as far as strategies, lowerings and random numbers are concerned."""

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Return True if an operator that may draw random numbers does so, as the model is used."""


class Backend(Protocol):
    """Builder of execution graphs, which measures and checks them before they run.

    `measured` is a word for what it measures, "memory" or "arguments", and `unmeasured` names the other memory of a step.
    """

    measured: str
    unmeasured: str

    def build(self, source: Source, program: PlannedProgram) -> Any:
        """Return the execution graph of a program."""

    def measure(self, execution: Any, choices: Choices) -> Measured:
        """Return the memory that the workers need, without allocating any."""

    def predict_peak(self, execution: Any) -> tuple[int, ...] | None:
        """Return the predicted peak of each worker in bytes, or None if the measured bytes are the peak."""

    def check(
        self,
        execution: Any,
        choices: Choices,
        measured: Measured | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError if an execution graph breaks a rule, or reads other bytes than those counted."""

    def measure_whole(self, source: Source) -> int:
        """Return the bytes that one device needs for the whole step."""

    def predict_whole_peak(self, source: Source) -> int:
        """Return the peak bytes of one device: measured, or predicted if the measured bytes lack some."""

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int] | None:
        """Return the bytes that a worker's kernels read and write, by operator, without operators that are computed in other kernels.

        None if each operator is one kernel, which reads its inputs and writes its outputs.
        """


@dataclass(frozen=True)
class Engine:
    """Framework: its front end, its backend, and the rules by which it moves data."""

    front_end: FrontEnd
    backend: Backend
    moves: Moves = FETCHES
