"""Checks of an emitted execution graph that know nothing of how it was planned: they read the graph alone."""

from tofu.mxnet.check.execution import check_execution, check_traffic
from tofu.mxnet.check.traffic import FetchTraffic, count_traffic

__all__ = ["FetchTraffic", "check_execution", "check_traffic", "count_traffic"]
