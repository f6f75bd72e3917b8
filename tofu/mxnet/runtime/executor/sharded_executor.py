"""`ShardedExecutor`, which runs a planned model on shards and never creates a whole tensor.

One graph has the forward and the backward pass. They can run separately, because callers may compute gradients of the
outputs in between. Another graph, for inference, uses the same shards.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
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
    OperatorFailureError,
    check_process,
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
from tofu.mxnet.runtime.executor.gradients import Gradients
from tofu.mxnet.runtime.executor.modes import refuse_gradients_of_inference, refuse_other_mode, refuse_second_run
from tofu.pipeline import Partition
from tofu.program import PlannedProgram, is_checked
from tofu.search.geometry import find_shards

logger = logging.getLogger("tofu")


class ShardedExecutor:
    """A planned model on the workers' devices, as `tofu.bind` returns it.

    Parameters
    ----------
    partition
        The plan and the graph.
    contexts
        The workers' devices.
    shared
        Variables of another executor. Their shards are used again if this plan splits them in the same way.
    keeps_gradients
        If True, gradients stay valid until the next backward pass.

    Attributes
    ----------
    variables
        Shards of all arguments, auxiliary states (such as moving means) and output gradients, by name.
    gradients
        The gradients.
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
        self._process_id = os.getpid()
        self._last_graph: BoundGraph | None = None  # None before the first forward, and after a failure
        self._ran_in_training_mode = False  # True if the last forward ran in training mode
        self._has_failed = False
        self._has_unread_results = False  # True if operators were started that nobody has waited for
        self._is_forward_overwritten = False  # True if a backward has overwritten results of the forward
        make_room(partition.plan, self.contexts)
        check_gpu_memory(partition, self.contexts)
        with explaining_memory(partition.plan, self.contexts, "binding the model"):
            for position in partition.graph.variables:
                self.variables[partition.graph.tensors[position].name] = self._bind_variable(position, shared or {})
            execution: ExecutionGraph = partition.training
            if keeps_gradients:
                execution = execution.keeping_gradients
                if is_checked():
                    partition.task.engine.backend.check(execution, partition.choices)
            self._training_graph = BoundGraph(partition, execution, self.variables, self.contexts)
            _ = self._training_graph.bound
        self._forward_boundary = partition.training.forward_boundary
        self.gradients = Gradients(self._training_graph)

    def _bind_variable(self, position: int, shared: Mapping[str, ShardedTensor]) -> ShardedTensor:
        tensor = self.partition.graph.tensors[position]
        regions = find_shards(self.partition.problem, position, self.partition.choices.layout(position))
        new_variable = ShardedTensor(tensor.name, tensor.shape, tensor.dtype, regions, self.contexts)
        shared_variable = shared.get(tensor.name)
        if shared_variable is not None and shared_variable.matches(new_variable):
            return shared_variable
        raise_failure(new_variable.arrays)  # MXNet allocates memory only when it writes the zeros
        return new_variable

    @cached_property
    def _inference_graph(self) -> BoundGraph:
        return BoundGraph(self.partition, build_inference(self.partition), self.variables, self.contexts)

    # ---- running

    def forward(self, is_train: bool, for_backward: bool = False) -> None:
        """Start the forward pass, and return before it has finished.

        If `for_backward` is True, keep the results that a backward pass needs.
        """
        check_process(self._process_id)
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
            self.gradients.note_forward()
            _mxnet.partial_forward(graph.handle, is_train, 0, self._forward_boundary)
            if self.changed_arguments:
                changed = [a.handle.value for name in self.changed_arguments for a in self.variables[name].arrays]
                _mxnet.order_after(changed, [output.handle.value for output in graph.model_outputs])

    @property
    def has_begun(self) -> bool:
        """True if `forward` was called, even if it failed."""
        return self._last_graph is not None or self._has_failed

    def prepare_backward(self, is_train: bool = True) -> None:
        """Run a second forward pass if a backward pass needs it. Call this before `backward`.

        A second pass is needed after inference, or if results were overwritten. Raise TofuError if a second pass would
        compute other numbers.
        """
        check_process(self._process_id)
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
        """Copy gradients of the model's outputs to the workers. Raise TofuError if one is missing.

        `names` are the names of all outputs. The error message uses them.
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
        """Start the backward pass. Call `prepare_backward` first."""
        self.prepare_backward(is_train)
        with uninterrupted():
            self._has_unread_results = self._is_forward_overwritten = True
            self.gradients.note_backward()
            _mxnet.partial_forward(self._training_graph.handle, is_train, self._forward_boundary, -1)
            for changed_states, outputs in self._training_graph.state_changes:
                _mxnet.order_after(changed_states, outputs)
            self.gradients.add_to_sums()

    def wait(self) -> None:
        """Wait until all operators have finished. Raise ExecutionError if one failed.

        After an error, `forward` can be called again.
        """
        check_process(self._process_id)
        unwritten_parameters, failure = self._find_failures()
        if failure is not None:
            raise self._describe_failure(unwritten_parameters, failure) from failure

    def _find_failures(self) -> tuple[list[str], Exception | None]:
        if self._last_graph is None or not self._has_unread_results:
            return [], None
        parameters = {t.name for t in self.partition.graph.tensors if t.kind is TensorKind.PARAMETER}
        updates = {name: find_failure(self.variables[name].arrays) for name in parameters - {*self.changed_arguments}}
        unwritten_parameters = sorted(name for name, error in updates.items() if error is not None)
        if unwritten_parameters:
            failure = updates[unwritten_parameters[0]]
        elif self._last_graph is self._training_graph and self.gradients.are_current:
            failure = find_failure([*self._last_graph.bound.outputs, *self._last_graph.bound.aux_arrays])
        else:
            failure = find_failure(self._last_graph.model_outputs)
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
        self._last_graph, self._has_failed = None, True
        self.gradients.invalidate()

    def _log_unread_failure(self) -> None:
        unwritten_parameters, failure = self._find_failures()
        if failure is None:
            return
        error = self._describe_failure(unwritten_parameters, failure)
        if unwritten_parameters:
            raise error from failure
        logger.warning("The results of the last run were not read. %s", error)

    # ---- results

    @cached_property
    def changed_arguments(self) -> tuple[str, ...]:
        """Names of arguments that operators overwrite, such as the scale of a BatchNorm that is fixed to 1."""
        graph = self.partition.problem.graph
        changed = [graph.tensors[position] for position in sorted(graph.written_in_place)]
        return tuple(t.name for t in changed if t.kind in (TensorKind.PARAMETER, TensorKind.INPUT))

    @cached_property
    def states_changed_by_forward(self) -> tuple[str, ...]:
        """Names of the auxiliary states (such as moving means) that only the forward pass changes."""
        graph = self.partition.problem.graph
        changed: dict[bool, set[int]] = {True: set(), False: set()}
        for operator in graph.operators:
            changed[operator.phase is Phase.FORWARD].update(operator.inputs[slot] for slot in operator.mutates)
        states = [graph.tensors[position] for position in sorted(changed[True] - changed[False])]
        return tuple(tensor.name for tensor in states if tensor.kind is TensorKind.AUXILIARY)

    def output(self, index: int) -> ShardedTensor:
        """Wait for an output of the model, and return its shards.

        Raise TofuError before the first successful forward pass.
        """
        check_process(self._process_id)
        count = len(self.partition.graph.outputs)
        if not 0 <= index < count:
            raise TofuError(f"There is no output {index}: the model has {count}, counted from 0.")
        if self._last_graph is None:
            state = "The last forward failed" if self._has_failed else "There are no outputs yet"
            raise TofuError(f"{state}: call forward(...) first.")
        self.wait()
        return self._last_graph.output(index)

    @property
    def differentiated(self) -> tuple[str, ...]:
        """Names of the arguments that have gradients."""
        return self.gradients.names

    @cached_property
    def kept_gradients(self) -> frozenset[str]:
        """Names of the arguments whose gradients a forward pass does not overwrite."""
        kept = self._training_graph.execution.kept
        return frozenset(name for name in self.differentiated if self.gradients.find_output(name) in kept)

    def gradient(self, name: str) -> ShardedTensor:
        """Wait for the gradient of an argument, and return its shards.

        Return zeros before the first backward pass. Raise TofuError if a forward pass has overwritten the gradient.
        """
        self.wait()
        return self.gradients.read(name)

    def keep_gradients(self, earlier: ShardedExecutor) -> None:
        """Copy another executor's gradients."""
        if earlier.gradients.are_readable:
            earlier.wait()
        self.gradients.keep(earlier.gradients)

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Call `callback` for each shard that an operator computes."""
        for graph in (self._training_graph, self._inference_graph):
            graph.watch(callback, monitor_all)

    def watch(self, make_callback: Callable[[PlannedProgram], Any]) -> None:
        """Install a callback for training and another for inference.

        `make_callback` takes the workers' program, and returns the callback.
        """
        self._training_graph.watch(make_callback(self.partition.program), False)
        self._inference_graph.watch(make_callback(write_inference(self.partition)), False)

    def debug_str(self) -> str:
        """Return MXNet's description of the graph for training."""
        return str(self._training_graph.bound.debug_str())
