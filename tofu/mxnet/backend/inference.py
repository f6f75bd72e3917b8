"""Build the graph for inference.

The graph has only forward operators, and reads the same shards as the graph for training.
"""

from __future__ import annotations

from tofu.lowering import prepare_inference
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.pipeline import Partition
from tofu.program import PlannedProgram, check_program, is_checked, write_program


def write_inference(partition: Partition) -> PlannedProgram:
    """Return the program that the workers run for inference. Operators are split as in training."""
    task = partition.task
    choices = prepare_inference(partition.graph, partition.searched, task.engine.front_end, task.settings.undescribed)
    return write_program(choices, inference=True)


def build_inference(partition: Partition) -> ExecutionGraph:
    """Build the MXNet graph for inference on all workers. Raise InternalError if the graph fails a check."""
    backend, program = partition.task.engine.backend, write_inference(partition)
    if is_checked():
        check_program(program)
    execution: ExecutionGraph = backend.build(partition.source, program)
    if is_checked():
        backend.check(execution, program.choices)
    return execution
