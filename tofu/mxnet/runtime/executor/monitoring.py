"""Monitors (`mx.mon.Monitor`) of a partitioned model. They receive whole arrays, with the names of one device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mxnet as mx

from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.arrays.whole_tensors import Callback, MonitoredTensors, WholeTensors
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor


class MonitoredShards:
    """An executor for `mx.mon.Monitor` that shows whole arrays."""

    def __init__(self, find_executor: Callable[[], ShardedExecutor], symbol: Any) -> None:
        self._find_executor = find_executor
        self._symbol = symbol
        self._callback: tuple[Any, bool] | None = None  # the bool is True if it also sees the inputs of operators

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Call `callback` for each whole tensor that the model computes."""
        self._callback = callback, monitor_all
        self.attach()

    def attach(self) -> None:
        """Install the callback in the current executor."""
        if self._callback is not None:
            watch_whole(self._find_executor(), *self._callback)

    @property
    def arg_arrays(self) -> Iterator[Any]:
        """Whole arguments, in the model's order."""
        return self._gather(self._symbol.list_arguments())

    @property
    def aux_arrays(self) -> Iterator[Any]:
        """Whole auxiliary states (such as moving means), in the model's order."""
        return self._gather(self._symbol.list_auxiliary_states())

    def _gather(self, names: list[str]) -> Iterator[Any]:
        variables: Mapping[str, ShardedTensor] = self._find_executor().variables
        return (variables[name].gather() for name in names)


def watch_whole(executor: ShardedExecutor, callback: Callable[[bytes, int], None], monitor_all: bool = False) -> None:
    """Call `callback(name, pointer)` with the whole array of each computed tensor.

    The callback must free the array. With `monitor_all`, it also receives the inputs of operators.
    """
    _install_callback(executor, lambda name, _, handle: callback(name, handle), monitor_all)


def watch_operators(
    executor: ShardedExecutor, callback: Callable[[bytes, bytes, int], None], monitor_all: bool
) -> None:
    """Call `callback(name, operator, pointer)` with the whole output of each operator. Gluon calls this a hook."""

    def show(name: bytes, op: str, handle: int) -> None:
        if op:
            callback(name, op.encode(), handle)
        else:
            mx.nd.NDArray(ctypes.c_void_p(handle))  # frees the array

    _install_callback(executor, show, monitor_all)


def _install_callback(executor: ShardedExecutor, callback: Callback, monitor_all: bool) -> None:
    monitored = MonitoredTensors(executor.partition.graph, executor.partition.source.native)
    read_variable = (lambda name: executor.variables[name].gather()) if monitor_all else None
    executor.watch(lambda program: WholeTensors(program, monitored, executor.contexts, callback, read_variable))
