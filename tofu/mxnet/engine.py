"""MXNet as an engine of the planner: a front end that knows MXNet's operators, and a backend that builds its graphs."""

from __future__ import annotations

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.engine import Engine, Measured
from tofu.mxnet.backend import ExecutionGraph, build_execution_graph
from tofu.mxnet.backend.buffers import list_shard_shapes, measure_one_device, plan_buffers, plan_worker_bytes
from tofu.mxnet.check import check_execution, check_traffic
from tofu.mxnet.frontend.randomness import draws_in, draws_undescribed
from tofu.mxnet.frontend.read_symbol import infer_operator_shapes
from tofu.mxnet.lowerings import LOWERINGS
from tofu.program import Program
from tofu.search import Choices

Shape = tuple[int, ...]


class MXNetFrontEnd:
    """Descriptions, lowerings and shapes of MXNet's operators, for the planner."""

    descriptions = DESCRIPTIONS
    lowerings = LOWERINGS

    infer_shapes = staticmethod(infer_operator_shapes)
    draws_undescribed = staticmethod(draws_undescribed)
    draws = staticmethod(draws_in)


class MXNetBackend:
    """Builder and checker of execution graphs, which are MXNet symbols that run on all workers."""

    measured = "memory"
    unmeasured = "optimizer states and workspace"

    build = staticmethod(build_execution_graph)
    measure_whole = predict_whole_peak = staticmethod(measure_one_device)

    def measure(self, execution: ExecutionGraph, choices: Choices) -> Measured:
        """Return each worker's bytes, by the memory planner that also runs when a graph is bound."""
        planned = plan_buffers(choices, execution)
        return Measured(plan_worker_bytes(choices, execution, planned), planned)

    def predict_peak(self, execution: ExecutionGraph) -> None:
        """Return None: the bytes of `measure` already include all buffers."""

    def check(
        self,
        execution: ExecutionGraph,
        choices: Choices,
        measured: Measured | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """Raise InternalError if the execution graph breaks a rule of `tofu.mxnet.check`."""
        planned = plan_buffers(choices, execution) if measured is None else measured.planned
        shapes: list[Shape] = []
        for output in execution.outputs:
            shapes += list_shard_shapes(choices.problem, output.tensor, output.layout)
        check_execution(planned, shapes)
        if communication_bytes is not None:
            check_traffic(planned, communication_bytes)

    def find_kernel_bytes(self, program: Program) -> None:
        """Return None: MXNet calls a kernel for each operator."""


MXNET = Engine(MXNetFrontEnd(), MXNetBackend())
