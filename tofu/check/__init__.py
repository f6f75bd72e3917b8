"""Checks of an emitted execution graph that know nothing of how it was planned: they read the graph alone."""

from tofu.check.buffers import find_shared_buffers
from tofu.check.execution import check_execution
from tofu.check.traffic import FetchTraffic, count_traffic

__all__ = ["FetchTraffic", "check_execution", "count_traffic", "find_shared_buffers"]
