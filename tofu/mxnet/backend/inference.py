"""Inference: the forward graph alone over the shards of a training step. MXNet runs inference with a graph of its own."""

from __future__ import annotations

from tofu.lowering import prepare_inference
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.pipeline import Emitted, Partition
from tofu.program import check_program, is_checked, write_program


def emit_inference(partition: Partition) -> Emitted:
    """Return the program of the forward operators with the plan's choices."""
    task = partition.task
    settled = prepare_inference(
        partition.graph,
        partition.searched,
        partition.searched_choices,
        task.engine.front_end,
        task.settings.undescribed,
    )
    return Emitted(settled.problem, settled.choices, write_program(settled.problem, settled.choices, inference=True))


def build_inference(partition: Partition) -> ExecutionGraph:
    """Return the execution graph of that program. Raise InternalError if it breaks a rule."""
    backend, emitted = partition.task.engine.backend, emit_inference(partition)
    if is_checked():
        check_program(emitted.program)
    execution: ExecutionGraph = backend.build(partition.source, emitted.problem, emitted.choices, emitted.program)
    if is_checked():
        backend.check(execution, emitted.problem, emitted.choices)
    return execution
