"""The objects through which the planner uses MXNet: `MXNetFrontEnd` and `MXNetBackend`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.engine import Engine, Measured, Source
from tofu.mxnet.backend.buffers import (
    add_up_workers,
    list_shard_shapes,
    measure_one_device,
    measure_workers,
    plan_buffers,
)
from tofu.mxnet.backend.execution_graph import ExecutionGraph, build_execution_graph
from tofu.mxnet.check.execution import check_execution, check_memory, check_traffic
from tofu.mxnet.frontend.randomness import draws_in, draws_undescribed
from tofu.mxnet.frontend.read_symbol import infer_operator_shapes
from tofu.mxnet.lowerings import LOWERINGS
from tofu.program import Program
from tofu.search import Choices

Shape = tuple[int, ...]


class MXNetFrontEnd:
    """Facts about MXNet's operators that the planner needs, such as descriptions and output shapes."""

    descriptions = DESCRIPTIONS
    lowerings = LOWERINGS

    infer_shapes = staticmethod(infer_operator_shapes)
    draws_undescribed = staticmethod(draws_undescribed)
    draws = staticmethod(draws_in)


class MXNetBackend:
    """Build, measure and check execution graphs for the planner."""

    measured = "memory"
    unmeasured = "optimizer states and workspace"

    build = staticmethod(build_execution_graph)
    measure_whole = predict_whole_peak = staticmethod(measure_one_device)

    def measure(self, source: Source, choices: Choices) -> Measured:
        """Return the bytes that each worker needs, without optimizer states and workspace."""
        return Measured(measure_workers(source, choices))

    def predict_peak(self, source: Source, choices: Choices) -> None:
        """Return None, because `measure` counts all buffers."""

    def check(
        self,
        execution: ExecutionGraph,
        choices: Choices,
        worker_bytes: Sequence[int] | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError if an execution graph breaks a rule of `tofu.mxnet.check`."""
        planned = plan_buffers(choices, execution)
        shard_shapes = (list_shard_shapes(choices.problem, o.tensor, o.layout) for o in execution.outputs)
        shapes = list(chain.from_iterable(shard_shapes))
        check_execution(planned, shapes)
        if worker_bytes is not None:
            check_memory(add_up_workers(choices, planned), worker_bytes)
        if communication_bytes is not None:
            check_traffic(planned, communication_bytes)

    def find_kernel_bytes(self, program: Program) -> None:
        """Return None, because each operator is one kernel in MXNet."""


MXNET = Engine(MXNetFrontEnd(), MXNetBackend())
