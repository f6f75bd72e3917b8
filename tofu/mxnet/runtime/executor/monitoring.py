"""What an `mx.mon.Monitor` sees of a partitioned model: the names and the whole arrays that it would see on one device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mxnet as mx

from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.arrays.whole_tensors import Callback, TensorNames, WholeTensors
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor


class MonitoredShards:
    """What a monitor asks an executor for, of one whose arrays are shards: they are gathered one at a time.

    Parameters
    ----------
    find_executor
        Gives the executor that is bound now.
    symbol
        The model, for its names.
    """

    def __init__(self, find_executor: Callable[[], ShardedExecutor], symbol: Any) -> None:
        self._find_executor = find_executor
        self._symbol = symbol
        self._watch: tuple[Any, bool] | None = None

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Let the callback see whole tensors."""
        self._watch = callback, monitor_all
        self.attach()

    def attach(self) -> None:
        """Show what the executor runs that is bound now."""
        if self._watch is not None:
            watch_whole(self._find_executor(), *self._watch)

    @property
    def arg_arrays(self) -> Iterator[Any]:
        """Whole arguments, in the order of the symbol's."""
        return self._gather(self._symbol.list_arguments())

    @property
    def aux_arrays(self) -> Iterator[Any]:
        """Whole auxiliary states, in the order of the symbol's."""
        return self._gather(self._symbol.list_auxiliary_states())

    def _gather(self, names: list[str]) -> Iterator[Any]:
        variables: Mapping[str, ShardedTensor] = self._find_executor().variables
        return (variables[name].gather() for name in names)


def watch_whole(executor: ShardedExecutor, callback: Callable[[bytes, int], None], monitor_all: bool = False) -> None:
    """Show a monitor's callback, which is given a name and the handle of an array that it frees, whole tensors of what an executor runs.

    With monitor_all=True it sees what operators read as well, before what they compute.
    """
    _watch(executor, lambda name, _, handle: callback(name, handle), monitor_all)


def watch_operators(
    executor: ShardedExecutor, callback: Callable[[bytes, bytes, int], None], monitor_all: bool
) -> None:
    """The same for a hook of a Gluon block, which is told the operator as well, and sees no variable but as what an operator reads."""

    def show(name: bytes, op: str, handle: int) -> None:
        if op:
            callback(name, op.encode(), handle)
        else:
            mx.nd.NDArray(ctypes.c_void_p(handle))  # frees it

    _watch(executor, show, monitor_all)


def _watch(executor: ShardedExecutor, callback: Callback, monitor_all: bool) -> None:
    names = TensorNames(executor.partition.graph, executor.partition.source.native)

    def read_variable(name: str) -> Any:
        return executor.variables[name].gather()

    executor.watch(
        lambda program: WholeTensors(
            program, names, executor.contexts, callback, read_variable if monitor_all else None
        )
    )
