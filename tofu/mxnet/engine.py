"""MXNet as an engine: its operators for the planner, its execution graphs for plans."""

from __future__ import annotations

from collections.abc import Sequence

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.engine import Engine, Measured, Source
from tofu.graph import Operator
from tofu.mxnet.backend import ExecutionGraph, build_execution_graph
from tofu.mxnet.backend.buffers import measure_one_device, plan_buffers, plan_worker_bytes
from tofu.mxnet.check import check_execution, check_traffic
from tofu.mxnet.frontend.read_symbol import infer_operator_shapes
from tofu.mxnet.frontend.refusals import draws_unsaid
from tofu.mxnet.lowerings import LOWERINGS
from tofu.program import PlannedProgram, Program
from tofu.search import Choices
from tofu.search.geometry import find_shards

DRAWN_IN_TRAINING = ("Dropout", "LeakyReLU", "RNN")
Shape = tuple[int, ...]


class MXNetFrontEnd:
    """MXNet's operators."""

    descriptions = DESCRIPTIONS
    lowerings = LOWERINGS

    def infer_shapes(self, op: str, attributes: dict[str, str], inputs: list[Shape]) -> Sequence[Shape] | None:
        """By MXNet's own inference; None where it has none (most backward operators)."""
        return infer_operator_shapes(op, attributes, inputs)

    def draws_unsaid(self, operator: Operator, is_whole: bool) -> bool:
        """MXNet says it of each operator that asks for a random resource."""
        return draws_unsaid(operator, is_whole)

    def draws(self, operator: Operator, for_training: bool) -> bool:
        """Some draw for training alone, unless they say otherwise."""
        is_used = for_training or operator.attributes.get("mode") == "always"
        return is_used or operator.op not in DRAWN_IN_TRAINING


class MXNetBackend:
    """Execution graphs are MXNet symbols over k workers."""

    measured = "memory"

    def build(self, source: Source, program: PlannedProgram) -> ExecutionGraph:
        """Nodes are copies of those of the model's training graph."""
        return build_execution_graph(source, program)

    def measure(self, execution: ExecutionGraph, choices: Choices) -> Measured:
        """By the planner that binding uses."""
        planned = plan_buffers(choices, execution)
        return Measured(plan_worker_bytes(choices, execution, planned), planned)

    def predict_peak(self, execution: ExecutionGraph) -> None:
        """Predict nothing: the measured bytes include all buffers."""

    def check(
        self,
        execution: ExecutionGraph,
        choices: Choices,
        measured: Measured | None = None,
        communication_bytes: int | None = None,
    ) -> None:
        """The rules of `tofu.mxnet.check`, over the buffers that were planned already, or are planned now."""
        planned = plan_buffers(choices, execution) if measured is None else measured.planned
        shapes = []
        for output in execution.outputs:
            boxes = find_shards(choices.problem, output.tensor, output.layout)
            shapes += [tuple(int(end - begin) for begin, end in box) for box in boxes]
        check_execution(planned, shapes)
        if communication_bytes is not None:
            check_traffic(planned, communication_bytes)

    def measure_whole(self, source: Source) -> int:
        """By the planner that binding uses."""
        return measure_one_device(source)

    def predict_whole_peak(self, source: Source) -> int:
        """The measured bytes are the peak."""
        return measure_one_device(source)

    def find_kernel_bytes(self, program: Program) -> None:
        """MXNet calls a kernel for each operator."""


MXNET = Engine(MXNetFrontEnd(), MXNetBackend())
