"""JAX as an engine: its primitives for the planner. Its backend measures what workers are given; it runs nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdl_ops.jax import DESCRIPTIONS
from tofu.engine import Engine, Measured, Source
from tofu.graph import Graph, Operator
from tofu.lowering import Lowerings
from tofu.program import Program
from tofu.search import Choices, Problem
from tofu.search.geometry import find_shards

Shape = tuple[int, ...]
LOWERINGS: Lowerings = {}
"""No primitive runs in parts: JAX's are small already."""


class JaxFrontEnd:
    """JAX's primitives. Random numbers follow from keys: no primitive draws any."""

    descriptions = DESCRIPTIONS
    lowerings = LOWERINGS

    def infer_shapes(self, op: str, attributes: dict[str, Any], inputs: list[Shape]) -> Sequence[Shape] | None:
        """Descriptions alone say which parts there are; what lowers a plan checks the shapes of each part."""
        return None

    def draws_unsaid(self, operator: Operator, is_whole: bool) -> bool:
        """None does."""
        return False

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """None does."""
        return False


class ArgumentsBackend:
    """Stands in for what will run plans: the execution graph is the program itself, and workers need their shards of the arguments."""

    def build(self, source: Source, problem: Problem, choices: Choices, program: Program) -> Program:
        """The program."""
        return program

    def measure(self, execution: Program, problem: Problem, choices: Choices) -> Measured:
        """The bytes of each worker's shards of arguments and constants; temporaries are not counted."""
        held = [0] * execution.workers
        for tensor in _list_arguments(problem.graph):
            boxes = find_shards(problem, tensor, choices.layout(tensor))
            cells = (boxes[..., 1] - boxes[..., 0]).prod(axis=1)
            item_bytes = problem.graph.tensors[tensor].item_bytes
            held = [before + int(count) * item_bytes for before, count in zip(held, cells, strict=True)]
        return Measured(tuple(held))

    def check(
        self,
        execution: Program,
        problem: Problem,
        choices: Choices,
        measured: Measured | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Programs are checked by the pipeline; there is nothing else yet."""

    def measure_whole(self, source: Source) -> int:
        """The bytes of all arguments and constants."""
        return sum(source.graph.tensors[tensor].size_bytes for tensor in _list_arguments(source.graph))


def _list_arguments(graph: Graph) -> list[int]:
    return [n for n, tensor in enumerate(graph.tensors) if tensor.is_given]


JAX = Engine(JaxFrontEnd(), ArgumentsBackend())
