"""The execution graph: k copies of each operator, and the fetches between them (section 6; stage 6 of the pipeline)."""

from tofu.execution.emit import ExecutionGraph, emit

__all__ = ["ExecutionGraph", "emit"]
