"""Execution graph for inference: the forward operators alone, over the shards of a training step."""

from __future__ import annotations

from tofu.lowering import prepare_inference
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.pipeline import Partition
from tofu.program import PlannedProgram, check_program, is_checked, write_program


def write_inference(partition: Partition) -> PlannedProgram:
    """Return the program of the forward operators with the plan's choices."""
    task = partition.task
    choices = prepare_inference(partition.graph, partition.searched, task.engine.front_end, task.settings.undescribed)
    return write_program(choices, inference=True)


def build_inference(partition: Partition) -> ExecutionGraph:
    """Return the execution graph of `write_inference`. Raise InternalError if it breaks a rule."""
    backend, program = partition.task.engine.backend, write_inference(partition)
    if is_checked():
        check_program(program)
    execution: ExecutionGraph = backend.build(partition.source, program)
    if is_checked():
        backend.check(execution, program.choices)
    return execution
