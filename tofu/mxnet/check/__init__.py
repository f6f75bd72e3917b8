"""Check an execution graph (the symbol that all workers run) for mistakes of the planner."""

from tofu.mxnet.check.execution import check_execution, check_memory, check_traffic
from tofu.mxnet.check.traffic import FetchTraffic, count_traffic

__all__ = ["FetchTraffic", "check_execution", "check_memory", "check_traffic", "count_traffic"]
