"""Graphs of all workers that MXNet has bound to devices."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.gpus import prepare_gpus
from tofu.program import shard_name, worker_group

ONEDNN_RECURRENCE = "MXNET_USE_MKLDNN_RNN"  # environment variable that MXNet reads when it binds
_environment_lock = threading.RLock()


class BoundGraph:
    """A graph that MXNet runs on all workers. MXNet binds it at its first use, and again after `release`.

    `variables` are the shards of each argument and state. `is_recurrent` is True if the model has MXNet's RNN operator.
    """

    def __init__(
        self,
        execution: ExecutionGraph,
        variables: Mapping[str, ShardedTensor],
        contexts: Sequence[Any],
        is_recurrent: bool,
    ) -> None:
        self.execution = execution
        self._variables = variables
        self._contexts = contexts
        self._is_recurrent = is_recurrent
        self._bound: Any = None
        self._monitor: tuple[Any, bool] | None = None

    @property
    def bound(self) -> Any:
        """MXNet's executor of this graph."""
        if self._bound is None:
            self._bound = self._bind()
        return self._bound

    @property
    def handle(self) -> int:
        """Pointer to MXNet's executor, for calls into C++."""
        return int(self.bound.handle.value)

    def _bind(self) -> Any:
        symbol, shards = self.execution.symbol, {}
        for name, variable in self._variables.items():
            shards.update({shard_name(name, worker): array for worker, array in enumerate(variable.arrays)})
        prepare_gpus(self._contexts, symbol)
        # The RNN operator gets MXNet's own kernels. oneDNN's backward kernel would read the inputs at the addresses of
        # the forward pass, but here the backward pass fetches them again, to other addresses.
        with setting_variable(ONEDNN_RECURRENCE, "0") if self._is_recurrent else nullcontext():
            bound = symbol.bind(
                ctx=unused_context(self._contexts),
                args=[shards[name] for name in self.execution.arguments],
                aux_states=[shards[name] for name in self.execution.states],
                grad_req="null",
                group2ctx={worker_group(worker): context for worker, context in enumerate(self._contexts)},
            )
        _mxnet.bulk_nodes(bound.handle.value, symbol.handle.value)
        if self._monitor is not None:
            bound.set_monitor_callback(*self._monitor)
        return bound

    def release(self) -> None:
        """Free the memory of the graph. Output arrays that a caller still holds stay valid."""
        self._bound = None

    def watch(self, callback: Any, monitor_all: bool) -> None:
        """Call `callback` for each output of each operator while the graph runs, as MXNet's executors do."""
        self._monitor = callback, monitor_all
        self.bound.set_monitor_callback(callback, monitor_all)


@contextmanager
def setting_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable inside the context. Other threads see it too.

    Only one thread at a time may enter the context. Ctrl-C has no effect until the context ends.
    """
    with uninterrupted(), _environment_lock:
        old_value = os.environ.get(name)
        os.environ[name] = value
        try:
            yield
        finally:
            if old_value is None:
                del os.environ[name]
            else:
                os.environ[name] = old_value


def unused_context(contexts: Sequence[Any]) -> Any:
    """Return a context that no worker uses, as the default context of a graph for all workers.

    MXNet's CPU backend rewrites a graph without gradients for inference if operators run in the default context. Here
    gradients are ordinary outputs, so MXNet finds no gradients. But the graph must not be rewritten.
    """
    used = {context.device_id for context in contexts if context.device_type == "cpu"}
    return mx.cpu(max(used, default=0) + 1000)
