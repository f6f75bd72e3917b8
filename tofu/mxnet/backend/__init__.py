"""Build the MXNet symbols that all workers run (execution graphs), and plan their memory."""

from tofu.mxnet.backend.execution_graph import ExecutionGraph, build_execution_graph

__all__ = ["ExecutionGraph", "build_execution_graph"]
