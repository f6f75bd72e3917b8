"""Check an execution graph (the symbol that all workers run) for mistakes of the planner."""

from tofu.mxnet.check.execution import check_execution, check_memory, check_traffic, count_remote_bytes

__all__ = ["check_execution", "check_memory", "check_traffic", "count_remote_bytes"]
