"""Execution graphs: MXNet symbols over k workers, and their buffers."""

from tofu.mxnet.backend.execution_graph import ExecutionGraph, build_execution_graph

__all__ = ["ExecutionGraph", "build_execution_graph"]
