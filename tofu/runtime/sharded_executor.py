"""The executor that knows shards alone: no whole tensor is ever made here.

It runs a training step in two phases on one execution graph, since callers may compute head gradients from the outputs in
between, and inference on a second graph over the same shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.errors import TofuError
from tofu.execution.emit import ExecutionGraph, shard_name, worker_group
from tofu.graph import TensorKind
from tofu.partition import Partition
from tofu.runtime.gpus import check_gpus, prepare_gpus
from tofu.runtime.shards import ShardedTensor

ONEDNN_RECURRENCE = "MXNET_USE_MKLDNN_RNN"  # read by MXNet when it binds


@contextmanager
def _plain_recurrence() -> Iterator[None]:
    """Have MXNet bind its own kernels for the fused RNN operator, not oneDNN's.

    Those keep pointers to what the forward operator read, and the backward one goes by them; here it is given regions fetched anew.
    """
    before = os.environ.get(ONEDNN_RECURRENCE)
    os.environ[ONEDNN_RECURRENCE] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ONEDNN_RECURRENCE]
        else:
            os.environ[ONEDNN_RECURRENCE] = before


class ShardedExecutor:
    """A partition bound to devices.

    Attributes
    ----------
    variables
        Name -> shards of every argument, auxiliary state and head gradient.
    """

    def __init__(
        self, partition: Partition, contexts: Sequence[Any], shared: Mapping[str, ShardedTensor] | None = None
    ) -> None:
        self.partition = partition
        self.contexts = tuple(contexts)
        check_gpus(self.contexts)
        self.variables: dict[str, ShardedTensor] = {}
        for position, tensor in enumerate(partition.graph.tensors):
            if tensor.kind is not TensorKind.INTERMEDIATE:
                self.variables[tensor.name] = self._bind_variable(position, shared or {})
        self._training = self._bind(partition.training)
        self._boundary = partition.training.forward_boundary
        self._current: Any = None

    def _bind_variable(self, position: int, shared: Mapping[str, ShardedTensor]) -> ShardedTensor:
        tensor = self.partition.graph.tensors[position]
        regions = self.partition.problem.shards(self.partition.choices, position)
        fresh = ShardedTensor(tensor.name, tensor.shape, tensor.dtype, regions, self.contexts)
        made = shared.get(tensor.name)
        return made if made is not None and made.matches(fresh) else fresh

    def _bind(self, execution: ExecutionGraph) -> Any:
        shards = {
            shard_name(name, worker): array
            for name, variable in self.variables.items()
            for worker, array in enumerate(variable.arrays)
        }
        prepare_gpus(self.contexts, execution.symbol)
        with _plain_recurrence():
            bound = execution.symbol.bind(
                ctx=unused_context(self.contexts),
                args=[shards[name] for name in execution.arguments],
                aux_states=[shards[name] for name in execution.states],
                grad_req="null",
                group2ctx={worker_group(worker): context for worker, context in enumerate(self.contexts)},
            )
        _mxnet.bulk_nodes(bound.handle.value, execution.symbol.handle.value)
        return bound

    @cached_property
    def _inference(self) -> Any:
        return self._bind(self.partition.inference)

    def forward(self, is_train: bool) -> None:
        """Run the forward operators. Asynchronous, as everything in MXNet; the outputs are shards."""
        if is_train:
            _mxnet.partial_forward(self._training.handle.value, True, 0, self._boundary)
            self._current = self._training
            if self.changed_arguments:
                changed = [a.handle.value for name in self.changed_arguments for a in self.variables[name].arrays]
                outputs = self._training.outputs[: len(self.partition.graph.outputs) * len(self.contexts)]
                _mxnet.order_after(changed, [output.handle.value for output in outputs])
        else:
            self._inference.forward(is_train=False)
            self._current = self._inference

    def backward(self) -> None:
        """Run the rest of the training step. Raises TofuError where no training forward came before."""
        if self._current is not self._training:
            raise TofuError(
                "backward() was called without a forward(is_train=True) before it, so there is nothing to differentiate."
            )
        _mxnet.partial_forward(self._training.handle.value, True, self._boundary, -1)
        for written, results in self._written_in_place:
            _mxnet.order_after(written, results)

    @cached_property
    def _written_in_place(self) -> list[tuple[list[int], list[int]]]:
        """For each device, handles of the states that operators change there, and of all results, which come no earlier."""
        devices: dict[Any, tuple[list[int], list[int]]] = {context: ([], []) for context in self.contexts}
        for state in self._training.aux_arrays:
            devices[state.context][0].append(state.handle.value)
        for result in self._training.outputs:
            devices[result.context][1].append(result.handle.value)
        return [(written, results) for written, results in devices.values() if written]

    @cached_property
    def changed_arguments(self) -> tuple[str, ...]:
        """Names of the arguments that operators change in place when they train: the gamma of a BatchNorm that fixes it."""
        graph = self.partition.problem.graph
        changed = [graph.tensors[position] for position in sorted(graph.written_in_place)]
        return tuple(t.name for t in changed if t.kind in (TensorKind.PARAMETER, TensorKind.INPUT))

    @property
    def has_run(self) -> bool:
        """Whether there are outputs."""
        return self._current is not None

    def output(self, index: int) -> ShardedTensor:
        """The shards of a model output, of the last forward. Raises TofuError before the first one."""
        if self._current is None:
            raise TofuError("There are no outputs yet: call forward(...) first.")
        execution = self.partition.training if self._current is self._training else self.partition.inference
        return self._result(self._current, execution, index)

    def gradient(self, name: str) -> ShardedTensor:
        """The shards of an argument's gradient, of the last backward; in the argument's own layout if an optimizer updates it."""
        graph = self.partition.graph
        differentiated = [graph.tensors[position].name for position in graph.gradients]
        return self._result(self._training, self.partition.training, len(graph.outputs) + differentiated.index(name))

    def _result(self, bound: Any, execution: ExecutionGraph, index: int) -> ShardedTensor:
        output = execution.outputs[index]
        tensor = self.partition.graph.tensors[output.tensor]
        regions = self.partition.problem.tensor_shards(output.tensor, output.layout)
        workers = len(self.contexts)
        arrays = bound.outputs[index * workers : (index + 1) * workers]
        return ShardedTensor(tensor.name, tensor.shape, tensor.dtype, regions, self.contexts, arrays)

    # What `mx.mon.Monitor` asks an executor for.

    @property
    def _symbol(self) -> Any:
        return self.partition.training.symbol

    @property
    def arg_arrays(self) -> list[Any]:
        """The shards, as the arguments of the training graph."""
        return list(self._training.arg_arrays)

    @property
    def aux_arrays(self) -> list[Any]:
        """The shards of auxiliary states, as those of the training graph."""
        return list(self._training.aux_arrays)

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Install MXNet's monitor callback; it is called with the names and shards of the workers' nodes."""
        for bound in (self._training, self._inference):
            bound.set_monitor_callback(callback, monitor_all)

    def debug_str(self) -> str:
        """MXNet's own description of the training graph as bound."""
        return str(self._training.debug_str())


def unused_context(contexts: Sequence[Any]) -> Any:
    """A context that no worker uses.

    MXNet's CPU backend rewrites a graph without gradients for inference if the default context is one of its own devices;
    the execution graph holds its gradients as ordinary outputs and must stay as it is.
    """
    used = {context.device_id for context in contexts if context.device_type == "cpu"}
    return mx.cpu(max(used, default=0) + 1000)
