"""`ShardedExecutor`, which runs a planned model on shards and never creates a whole tensor.

One graph has the forward and the backward pass. It runs in two phases, because callers may compute gradients of the
outputs in between. Inference has another graph on the same shards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

from tofu import _mxnet
from tofu.errors import NotReadyError, TofuError, raise_together
from tofu.graph import Phase, TensorKind
from tofu.host.host_memory import read_free_bytes
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.backend.execution_graph import ExecutionGraph
from tofu.mxnet.backend.inference import build_inference, write_inference
from tofu.mxnet.frontend.head_gradients import list_head_gradients
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.bound_graph import BoundGraph
from tofu.mxnet.runtime.executor.failures import (
    AllocationFailureError,
    BirthProcess,
    OperatorFailureError,
    describe_lack,
    explaining_memory,
    find_failure,
    forget_failures,
    is_out_of_memory,
    make_room,
    raise_failure,
    summarise,
)
from tofu.mxnet.runtime.executor.gpus import check_gpu_memory, check_gpus
from tofu.mxnet.runtime.executor.modes import refuse_gradients_of_inference, refuse_other_mode, refuse_second_run
from tofu.pipeline import Partition
from tofu.program import OutputShards, PlannedProgram, is_checked
from tofu.search.geometry import find_shards

logger = logging.getLogger("tofu")


class Gradients(Enum):
    """State of the memory that holds the gradients."""

    NONE = "zeros: there was no backward yet"
    EARLIER = "gradients of another executor, before a reshape"
    CURRENT = "gradients of the last backward"
    OVERWRITTEN = "invalid: a training forward came after the last backward and may use the memory, or a step failed"


class ShardedExecutor:
    """A planned model on the workers' devices. `tofu.bind` returns it.

    Parameters
    ----------
    partition
        The plan, and the graph to run.
    contexts
        The workers' devices.
    shared
        Variables of another executor. Their shards are used again if this plan splits them in the same way.
    keeps_gradients
        True if gradients get their own memory, so that they stay valid until the next backward (`kept_gradients`).

    Attributes
    ----------
    variables
        The shards of each argument, each auxiliary state, and each gradient of an output that a caller sets, by name.
    sums
        For each argument with grad_req="add", the shards to which every backward adds the gradient.
    """

    def __init__(
        self,
        partition: Partition,
        contexts: Sequence[Any],
        shared: Mapping[str, ShardedTensor] | None = None,
        keeps_gradients: bool = False,
    ) -> None:
        self.partition = partition
        self.contexts = tuple(contexts)
        check_gpus(self.contexts)
        self.variables: dict[str, ShardedTensor] = {}
        self.sums: dict[str, ShardedTensor] = {}
        self._process = BirthProcess()
        self._last_graph: BoundGraph | None = None  # None before the first forward, and after a failure
        self._ran_in_training_mode = False  # True if the last forward ran in training mode
        self._has_failed = False
        self._has_unread_results = False  # True if operators were started that nobody has waited for
        self._is_forward_overwritten = False  # True if a backward has overwritten results of the forward
        self._gradients = Gradients.NONE
        self._earlier_gradients: dict[str, ShardedTensor] = {}
        make_room(partition.plan, self.contexts)
        check_gpu_memory(partition, self.contexts)
        with explaining_memory(partition.plan, self.contexts, "binding the model"):
            for position, tensor in enumerate(partition.graph.tensors):
                if tensor.kind is not TensorKind.INTERMEDIATE:
                    self.variables[tensor.name] = self._bind_variable(position, shared or {})
            self._training_graph = self._make_graph(
                self._build_graph_with_gradients() if keeps_gradients else partition.training
            )
            _ = self._training_graph.bound
        self._forward_boundary = partition.training.forward_boundary

    def _bind_variable(self, position: int, shared: Mapping[str, ShardedTensor]) -> ShardedTensor:
        tensor = self.partition.graph.tensors[position]
        regions = find_shards(self.partition.problem, position, self.partition.choices.layout(position))
        new_variable = ShardedTensor(tensor.name, tensor.shape, tensor.dtype, regions, self.contexts)
        shared_variable = shared.get(tensor.name)
        if shared_variable is not None and shared_variable.matches(new_variable):
            return shared_variable
        raise_failure(new_variable.arrays)  # MXNet allocates memory only when it writes the zeros
        return new_variable

    def _build_graph_with_gradients(self) -> ExecutionGraph:
        execution: ExecutionGraph = self.partition.training.keeping_gradients
        if is_checked():
            self.partition.task.engine.backend.check(execution, self.partition.choices)
        return execution

    def _make_graph(self, execution: ExecutionGraph) -> BoundGraph:
        is_recurrent = any(operator.op == "RNN" for operator in self.partition.problem.graph.operators)
        return BoundGraph(execution, self.variables, self.contexts, is_recurrent)

    @cached_property
    def _inference_graph(self) -> BoundGraph:
        return self._make_graph(build_inference(self.partition))

    def forward(self, is_train: bool, for_backward: bool = False) -> None:
        """Start the forward pass, without waiting for it to end.

        With `for_backward`, a forward for inference keeps the values that a backward needs.
        """
        self._process.check()
        self._log_unread_failure()
        graph = self._training_graph if is_train or for_backward else self._inference_graph
        with explaining_memory(self.partition.plan, self.contexts, "running the model"):
            bound = graph.bound
        with uninterrupted():
            self._last_graph, self._ran_in_training_mode, self._has_unread_results = graph, is_train, True
            if graph is not self._training_graph:
                bound.forward(is_train=False)
                return
            self._is_forward_overwritten = False
            if self._gradients in (Gradients.CURRENT, Gradients.EARLIER):
                self._gradients, self._earlier_gradients = Gradients.OVERWRITTEN, {}
            _mxnet.partial_forward(graph.handle, is_train, 0, self._forward_boundary)
            if self.changed_arguments:
                changed = [a.handle.value for name in self.changed_arguments for a in self.variables[name].arrays]
                _mxnet.order_after(changed, [output.handle.value for output in self._list_outputs()])

    @property
    def has_begun(self) -> bool:
        """True if `forward` was called, even if it failed."""
        return self._last_graph is not None or self._has_failed

    def prepare_backward(self, is_train: bool = True) -> None:
        """Run the forward again if it ran in another mode, or if a backward has overwritten its results.

        The modes are training and inference. Raise TofuError if a second forward would compute other numbers.
        """
        self._process.check()
        if self._last_graph is None:
            raise NotReadyError(
                "backward() was called without a forward() before it, so there is nothing to differentiate."
            )
        graph = self.partition.graph
        if self._ran_in_training_mode is not is_train:
            refuse_other_mode(
                graph, "backward() after a forward(is_train=False)" if is_train else "backward(is_train=False)"
            )
        elif not is_train:
            refuse_gradients_of_inference(graph, runs_again=self._last_graph is not self._training_graph)
        if self._last_graph is self._training_graph and self._is_forward_overwritten:
            refuse_second_run(graph)
        elif self._last_graph is self._training_graph:
            return
        self.forward(is_train, for_backward=True)

    def scatter_head_gradients(self, gradients: Sequence[Any], names: Sequence[str]) -> None:
        """Copy the gradients of the model's outputs to the workers. Raise TofuError if one is missing.

        `names` are the names of all outputs, for the error message.
        """
        variable_by_output = list_head_gradients(self.partition.graph)
        missing = [n for n in variable_by_output if n >= len(gradients) or gradients[n] is None]
        raise_together(
            TofuError,
            "backward() needs out_grads, a gradient for each output that is no loss. Missing for:",
            [f"{names[n]}, of shape {self.variables[variable_by_output[n]].shape}" for n in missing],
        )
        for output, name in variable_by_output.items():
            self.variables[name].scatter(gradients[output])

    def backward(self, is_train: bool = True) -> None:
        """Start the backward pass.

        If the results of the forward are missing or of another mode, run the forward again first.
        """
        self.prepare_backward(is_train)
        with uninterrupted():
            self._has_unread_results, self._gradients, self._earlier_gradients = True, Gradients.CURRENT, {}
            self._is_forward_overwritten = True
            _mxnet.partial_forward(self._training_graph.handle, is_train, self._forward_boundary, -1)
            for changed_states, outputs in self._changes_by_device:
                _mxnet.order_after(changed_states, outputs)
            for name, gradient_sum in self.sums.items():
                for sum_shard, shard in zip(gradient_sum.arrays, self._last_gradient(name).arrays, strict=True):
                    sum_shard += shard

    def wait(self) -> None:
        """Block until all operators are done. Raise ExecutionError if one failed; the next forward runs normally."""
        unwritten_parameters, failure = self._find_failures()
        if failure is not None:
            raise self._describe_failure(unwritten_parameters, failure) from failure

    def _find_failures(self) -> tuple[list[str], Exception | None]:
        """Return the names of parameters that an update failed to write, and the first error. Forget both."""
        if self._last_graph is None or not self._has_unread_results:
            return [], None
        parameters = {t.name for t in self.partition.graph.tensors if t.kind is TensorKind.PARAMETER}
        updates = {name: find_failure(self.variables[name].arrays) for name in parameters - {*self.changed_arguments}}
        unwritten_parameters = sorted(name for name, error in updates.items() if error is not None)
        failure = updates[unwritten_parameters[0]] if unwritten_parameters else find_failure(self._list_last_arrays())
        self._has_unread_results = False
        if failure is not None:
            self._forget_failed_run()
            failure = forget_failures(failure)
        return unwritten_parameters, failure

    def _describe_failure(self, unwritten_parameters: Sequence[str], failure: Exception) -> TofuError:
        if unwritten_parameters:
            return OperatorFailureError(
                f"The last update failed: {summarise(failure)} All but the parameters {', '.join(unwritten_parameters)} are updated, so "
                "the model is inconsistent. Load the last checkpoint."
            )
        if is_out_of_memory(failure):
            return AllocationFailureError(
                describe_lack(self.partition.plan, self.contexts, "running the model", read_free_bytes())
            )
        return OperatorFailureError(
            f"An operator failed while the model ran: {summarise(failure)} Outputs and gradients of this step are lost. The parameters are "
            "unchanged; auxiliary states such as moving averages may have changed. Fix the operator's inputs and call forward again."
        )

    def _forget_failed_run(self) -> None:
        for graph in (self._training_graph, self.__dict__.get("_inference_graph")):
            if graph is not None:
                graph.release()
        for variable in self.variables.values():
            find_failure(variable.arrays)
        self.__dict__.pop("_changes_by_device", None)
        self._last_graph, self._has_failed = None, True
        self._gradients, self._earlier_gradients = Gradients.OVERWRITTEN, {}

    def _log_unread_failure(self) -> None:
        unwritten_parameters, failure = self._find_failures()
        if unwritten_parameters and failure is not None:
            raise self._describe_failure(unwritten_parameters, failure) from failure
        if failure is not None:
            logger.warning(
                "The results of the last run were not read. %s",
                self._describe_failure(unwritten_parameters, failure),
            )

    def _list_outputs(self) -> list[Any]:
        graph = self._last_graph or self._training_graph
        return list(graph.bound.outputs[: len(self.partition.graph.outputs) * len(self.contexts)])

    def _list_last_arrays(self) -> list[Any]:
        is_whole_step = self._last_graph is self._training_graph and self._gradients is Gradients.CURRENT
        return (
            [*self._training_graph.bound.outputs, *self._training_graph.bound.aux_arrays]
            if is_whole_step
            else self._list_outputs()
        )

    @cached_property
    def _changes_by_device(self) -> list[tuple[list[int], list[int]]]:
        """For each device, pointers to the states that change, and to the outputs that must wait for the changes."""
        devices: dict[Any, tuple[list[int], list[int]]] = {context: ([], []) for context in self.contexts}
        for state in self._training_graph.bound.aux_arrays:
            devices[state.context][0].append(state.handle.value)
        for output in self._training_graph.bound.outputs:
            devices[output.context][1].append(output.handle.value)
        return [(states, outputs) for states, outputs in devices.values() if states]

    @cached_property
    def changed_arguments(self) -> tuple[str, ...]:
        """Names of the arguments that training overwrites, such as the gamma of a BatchNorm with fix_gamma."""
        graph = self.partition.problem.graph
        changed = [graph.tensors[position] for position in sorted(graph.written_in_place)]
        return tuple(t.name for t in changed if t.kind in (TensorKind.PARAMETER, TensorKind.INPUT))

    @cached_property
    def states_changed_by_forward(self) -> tuple[str, ...]:
        """Names of the auxiliary states that the forward pass changes and the backward pass does not."""
        graph = self.partition.problem.graph
        changed: dict[bool, set[int]] = {True: set(), False: set()}
        for operator in graph.operators:
            changed[operator.phase is Phase.FORWARD].update(operator.inputs[slot] for slot in operator.mutates)
        states = [graph.tensors[position] for position in sorted(changed[True] - changed[False])]
        return tuple(tensor.name for tensor in states if tensor.kind is TensorKind.AUXILIARY)

    def output(self, index: int) -> ShardedTensor:
        """Wait for output number `index` of the model and return its shards.

        Raise TofuError before a successful forward.
        """
        self._process.check()
        count = len(self.partition.graph.outputs)
        if not 0 <= index < count:
            raise TofuError(f"There is no output {index}: the model has {count}, counted from 0.")
        if self._last_graph is None:
            state = "The last forward failed" if self._has_failed else "There are no outputs yet"
            raise TofuError(f"{state}: call forward(...) first.")
        self.wait()
        return self._wrap_output(self._last_graph, index)

    @cached_property
    def differentiated(self) -> tuple[str, ...]:
        """Names of the arguments that have gradients."""
        graph = self.partition.graph
        return tuple(graph.tensors[position].name for position in graph.gradients)

    @cached_property
    def kept_gradients(self) -> frozenset[str]:
        """Names of the arguments whose gradients stay valid until the next backward."""
        kept = self._training_graph.execution.kept
        return frozenset(name for name in self.differentiated if self._gradient_index(name) in kept)

    def gradient(self, name: str) -> ShardedTensor:
        """Wait for the gradient of an argument and return its shards.

        As in MXNet, the gradient is zero before the first backward. If an optimizer updates the argument, the gradient
        is split like the argument. Raise TofuError if a later forward may have overwritten the gradient.
        """
        self._process.check()
        self.wait()
        if name not in self.differentiated:
            raise TofuError(f"{name} has no gradient. Those that have one: {', '.join(self.differentiated) or 'none'}.")
        if name in self.sums:
            return self.sums[name]
        if self._gradients is Gradients.OVERWRITTEN:
            raise TofuError(
                "There are no gradients: the last step failed, or forward(is_train=True) or a batch of another size came after the last "
                "backward() and may have overwritten them. Call backward() first."
            )
        if self._gradients is Gradients.CURRENT:
            return self._last_gradient(name)
        if name not in self._earlier_gradients:
            self._earlier_gradients[name] = self._zero_gradient(name)
        return self._earlier_gradients[name]

    def keep_gradients(self, earlier: ShardedExecutor) -> None:
        """Copy the gradients of the `earlier` executor. They stay valid until the next forward in training mode."""
        if earlier._gradients is Gradients.OVERWRITTEN:
            self._gradients = Gradients.OVERWRITTEN
        elif earlier._gradients is not Gradients.NONE:
            self._gradients = Gradients.EARLIER
            for name in self.differentiated:
                gradient, earlier_gradient = self._zero_gradient(name), earlier.gradient(name)
                if gradient.shape == earlier_gradient.shape:
                    gradient.scatter(earlier_gradient.gather())
                    self._earlier_gradients[name] = gradient

    def forget_gradients(self, earlier: ShardedExecutor) -> None:
        """Mark the gradients as invalid until the next backward, if the `earlier` executor had gradients."""
        if earlier._gradients is not Gradients.NONE:
            self._gradients = Gradients.OVERWRITTEN

    def add_up(self, names: Collection[str], shared: Mapping[str, ShardedTensor]) -> None:
        """Let every backward add to the gradients of the arguments in `names`, instead of overwriting them.

        The sums start as the shards in `shared` if these are split in the same way, otherwise as zeros.
        """
        for name in names:
            zeros, shared_sum = self._zero_gradient(name), shared.get(name)
            self.sums[name] = shared_sum if shared_sum is not None and shared_sum.matches(zeros) else zeros

    def _gradient_index(self, name: str) -> int:
        return len(self.partition.graph.outputs) + self.differentiated.index(name)

    def _last_gradient(self, name: str) -> ShardedTensor:
        return self._wrap_output(self._training_graph, self._gradient_index(name))

    def _zero_gradient(self, name: str) -> ShardedTensor:
        return self._wrap_shards(self.partition.training.outputs[self._gradient_index(name)], None)

    def _wrap_output(self, graph: BoundGraph, index: int) -> ShardedTensor:
        workers = len(self.contexts)
        return self._wrap_shards(
            graph.execution.outputs[index], graph.bound.outputs[index * workers : (index + 1) * workers]
        )

    def _wrap_shards(self, output: OutputShards, arrays: Sequence[Any] | None) -> ShardedTensor:
        tensor = self.partition.graph.tensors[output.tensor]
        regions = find_shards(self.partition.problem, output.tensor, output.layout)
        return ShardedTensor(tensor.name, tensor.shape, tensor.dtype, regions, self.contexts, arrays)

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Call `callback` with each shard that an operator computes on a worker, as MXNet's executors do."""
        for graph in (self._training_graph, self._inference_graph):
            graph.watch(callback, monitor_all)

    def watch(self, make_callback: Callable[[PlannedProgram], Any]) -> None:
        """Install one callback for training and one for inference.

        `make_callback` gets the program of the workers (what each computes, in order) and returns the callback.
        """
        self._training_graph.watch(make_callback(self.partition.program), False)
        self._inference_graph.watch(make_callback(write_inference(self.partition)), False)

    def debug_str(self) -> str:
        """Return MXNet's own description of the graph for training."""
        return str(self._training_graph.bound.debug_str())
