"""What the planner needs of a framework, in two small protocols: a front end reads its programs, a backend builds and measures plans.

`tofu.mxnet.engine` is the first pair; a NumPy backend in the tests is a second one, which keeps the protocols honest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tofu.graph import Graph, Operator
from tofu.lowering import LowerableOperators
from tofu.program import Program
from tofu.search import Choices, Problem
from tofu.search.native import FETCHES, Moves


@dataclass(frozen=True)
class Source:
    """A training step as it was read: the semantic graph, and `native`, the framework's own form of it, which its backend copies."""

    graph: Graph
    native: Any = None


@dataclass(frozen=True)
class Measured:
    """What an execution graph needs: `worker_bytes`, of each worker, shards and buffers; `planned`, what the backend knows it from."""

    worker_bytes: tuple[int, ...]
    planned: Any = None


class FrontEnd(LowerableOperators, Protocol):
    """A framework's operators: what finding strategies and lowering need of them, and which draw random numbers."""

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Whether an operator that may draw random numbers does, as the model is used."""


class Backend(Protocol):
    """What runs plans: built from programs, measured and checked before they run. `measured`, in a word: what the bytes are of."""

    measured: str

    def build(self, source: Source, problem: Problem, choices: Choices, program: Program) -> Any:
        """The execution graph of a program."""

    def measure(self, execution: Any, problem: Problem, choices: Choices) -> Measured:
        """The memory that the workers need, without allocating any."""

    def predict_peak(self, execution: Any, measured: Measured) -> tuple[int, ...]:
        """Return the bytes that each worker needs at most at any time: the measured ones themselves, or a prediction if these lack some."""

    def check(
        self,
        execution: Any,
        problem: Problem,
        choices: Choices,
        measured: Measured | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError where an execution graph breaks a rule, or does not read just the bytes that are counted."""

    def measure_whole(self, source: Source) -> int:
        """The bytes that one device needs for the whole step."""

    def predict_whole_peak(self, source: Source) -> int:
        """Return the bytes that one device needs at most at any time: the measured ones, or a prediction if these lack some."""

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int] | None:
        """Return the bytes that a worker's kernels read and write, by operator. An operator that is computed in other kernels is left out.

        None if each operator is a kernel, which reads its inputs and writes its outputs.
        """


@dataclass(frozen=True)
class Engine:
    """A framework: its front end, its backend, and the rules by which that moves data, as far as plans depend on them."""

    front_end: FrontEnd
    backend: Backend
    moves: Moves = FETCHES
