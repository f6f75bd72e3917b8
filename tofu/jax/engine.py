"""JAX as an engine: its primitives for the planner, and backends that make one program of a plan for all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tdl_ops.jax import DESCRIPTIONS
from tofu.engine import Engine, Measured, Source
from tofu.errors import UnsupportedError
from tofu.graph import Graph, Operator
from tofu.jax.backend.gspmd import GspmdProgram
from tofu.jax.backend.spmd import SpmdProgram
from tofu.jax.memory import predict_worker
from tofu.lowering import Lowerings
from tofu.program import Program
from tofu.reading import show
from tofu.search import Choices, Problem
from tofu.search.geometry import find_shards
from tofu.search.native import COLLECTIVES, UNEVEN

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


@dataclass(frozen=True)
class JaxBackend:
    """Makes of a plan a program for all workers, of a class."""

    make: type[SpmdProgram]
    adds_up_behind_loops: bool = True
    """Whether what loops add up moves once, as plans count it."""
    predicts_peak: bool = True
    """Whether a memory limit is kept against the predicted peak of a worker, or against its arguments and constants alone."""
    measured = "arguments"

    def build(self, source: Source, problem: Problem, choices: Choices, program: Program) -> SpmdProgram:
        """The program of a step, which is traced when it is first called."""
        return self.make(source.native, problem, choices)

    def measure(self, execution: SpmdProgram, problem: Problem, choices: Choices) -> Measured:
        """The bytes of each worker's shards of arguments and constants; temporaries are not counted."""
        held = [0] * execution.workers.count
        for tensor in _list_arguments(problem.graph):
            boxes = find_shards(problem, tensor, choices.layout(tensor))
            cells = (boxes[..., 1] - boxes[..., 0]).prod(axis=1)
            item_bytes = problem.graph.tensors[tensor].item_bytes
            held = [before + int(count) * item_bytes for before, count in zip(held, cells, strict=True)]
        return Measured(tuple(held))

    def predict_peak(self, execution: SpmdProgram, measured: Measured) -> tuple[int, ...]:
        """Predict arguments, constants, results and temporaries together, from the traced program of a worker."""
        if not self.predicts_peak:
            return measured.worker_bytes
        return (predict_worker(execution).needed_bytes,) * execution.workers.count

    def check(
        self,
        execution: SpmdProgram,
        problem: Problem,
        choices: Choices,
        measured: Measured | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """The pipeline has checked what the plan counts; which collectives do it XLA says (`benchmarks`)."""

    def measure_whole(self, source: Source) -> int:
        """The bytes of all arguments and constants."""
        return sum(source.graph.tensors[tensor].size_bytes for tensor in _list_arguments(source.graph))


def _list_arguments(graph: Graph) -> list[int]:
    return [n for n, tensor in enumerate(graph.tensors) if tensor.is_given]


ENGINES: Mapping[str, Engine] = {
    "shard_map": Engine(JaxFrontEnd(), JaxBackend(SpmdProgram), replace(COLLECTIVES, overlaps_given="needed")),
    "gspmd": Engine(JaxFrontEnd(), JaxBackend(GspmdProgram, adds_up_behind_loops=False), COLLECTIVES),
}
"""By the backend that runs plans: what every worker does, with the plan's own collectives, or sharding constraints for XLA."""
JAX = ENGINES["shard_map"]
LIMITS_ARGUMENTS = replace(JAX, backend=JaxBackend(SpmdProgram, predicts_peak=False))
"""The default engine, whose memory limits are those of arguments: to compare plans that keep equally much of a state."""


def find_engine(backend: str, uneven: str | None) -> Engine:
    """That of a backend, which lets arguments lie in unequal parts as `uneven` says. Raises UnsupportedError where there is none."""
    if not isinstance(backend, str) or backend not in ENGINES:
        raise UnsupportedError(f"backend is {show(backend)}, and not one of {', '.join(map(repr, ENGINES))}.")
    if uneven is None:
        return ENGINES[backend]
    if not isinstance(uneven, str) or uneven not in UNEVEN:
        raise UnsupportedError(f"uneven is {show(uneven)}, and not one of {', '.join(map(repr, UNEVEN))}.")
    if uneven != "none" and backend != "shard_map":
        raise UnsupportedError(
            f"uneven={uneven!r} is not for backend={backend!r}: XLA's partitioner gives all devices equal parts. Leave one of them out."
        )
    engine = ENGINES[backend]
    return replace(engine, moves=replace(engine.moves, overlaps_given=cast(Any, uneven)))
