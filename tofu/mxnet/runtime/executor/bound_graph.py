"""Bind graphs to the devices of all workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.mxnet.frontend.recurrent_layers import ONEDNN_RECURRENCE
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.gpus import prepare_gpus
from tofu.pipeline import Partition
from tofu.program import shard_name, worker_group
from tofu.search.geometry import find_shards

_environment_lock = threading.RLock()


class BoundGraph:
    """A graph on the devices of all workers. MXNet allocates its memory at the first use.

    `variables` maps each argument and auxiliary state (such as a moving mean) to its shards.
    """

    def __init__(
        self,
        partition: Partition,
        execution: ExecutionGraph,
        variables: Mapping[str, ShardedTensor],
        contexts: Sequence[Any],
    ) -> None:
        self.partition = partition
        self.execution = execution
        self._variables = variables
        self._contexts = contexts
        self._monitor: tuple[Any, bool] | None = None

    @cached_property
    def bound(self) -> Any:
        """The graph's MXNet executor."""
        symbol, shards = self.execution.symbol, {}
        for name, variable in self._variables.items():
            shards.update({shard_name(name, worker): array for worker, array in enumerate(variable.arrays)})
        prepare_gpus(self._contexts, symbol)
        # The RNN operator gets MXNet's own kernels. oneDNN's backward kernel would read the inputs at the addresses of
        # the forward pass, but here the backward pass fetches them again, to other addresses.
        is_recurrent = any(operator.op == "RNN" for operator in self.partition.problem.graph.operators)
        with setting_variable(ONEDNN_RECURRENCE, "0") if is_recurrent else nullcontext():
            bound = symbol.bind(
                ctx=_find_unused_context(self._contexts),  # keeps MXNet from rewriting the graph
                args=[shards[name] for name in self.execution.arguments],
                aux_states=[shards[name] for name in self.execution.states],
                grad_req="null",
                group2ctx={worker_group(worker): context for worker, context in enumerate(self._contexts)},
            )
        _mxnet.bulk_nodes(bound.handle.value, symbol.handle.value)
        if self._monitor is not None:
            bound.set_monitor_callback(*self._monitor)
        return bound

    @property
    def handle(self) -> int:
        """Address of the MXNet executor, for calls into C++."""
        return int(self.bound.handle.value)

    @property
    def model_outputs(self) -> list[Any]:
        """The shards of all outputs of the model. Gradients are not included."""
        return list(self.bound.outputs[: self.execution.n_model_outputs * len(self._contexts)])

    def output(self, position: int) -> ShardedTensor:
        """Return the shards of an output or gradient. They stay in the graph's memory."""
        output, workers = self.execution.outputs[position], len(self._contexts)
        tensor = self.partition.graph.tensors[output.tensor]
        regions = find_shards(self.partition.problem, output.tensor, output.layout)
        arrays = self.bound.outputs[position * workers : (position + 1) * workers]
        return ShardedTensor(tensor.name, tensor.shape, tensor.dtype, regions, self._contexts, arrays)

    @cached_property
    def state_changes(self) -> list[tuple[list[int], list[int]]]:
        """For each device, pointers to its auxiliary states (such as moving means) and to its outputs.

        Outputs may be read only after the states have changed.
        """
        devices: dict[Any, tuple[list[int], list[int]]] = {context: ([], []) for context in self._contexts}
        for state in self.bound.aux_arrays:
            devices[state.context][0].append(state.handle.value)
        for output in self.bound.outputs:
            devices[output.context][1].append(output.handle.value)
        return [(states, outputs) for states, outputs in devices.values() if states]

    def release(self) -> None:
        """Free the graph's memory. Output arrays stay valid if a caller has them."""
        self.__dict__.pop("bound", None)
        self.__dict__.pop("state_changes", None)

    def watch(self, callback: Any, monitor_all: bool) -> None:
        """While the graph runs, call `callback` for each output of each operator."""
        self._monitor = callback, monitor_all
        self.bound.set_monitor_callback(callback, monitor_all)


@contextmanager
def setting_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable in a `with` block.

    Only one thread at a time can be in such a block. Ctrl-C waits until its end.
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


def _find_unused_context(contexts: Sequence[Any]) -> Any:
    used = {context.device_id for context in contexts if context.device_type == "cpu"}
    return mx.cpu(max(used, default=0) + 1000)
