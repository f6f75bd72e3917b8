"""Backend: builds execution graphs, which are MXNet symbols that run on all workers, and plans their buffers."""

from tofu.mxnet.backend.execution_graph import ExecutionGraph, build_execution_graph

__all__ = ["ExecutionGraph", "build_execution_graph"]
