"""The operator that runs the graph of a partitioned block. It replaces MXNet's CachedOp, the graph of a Gluon block.

A call inside `autograd.record()` keeps its executor until its backward pass has run. Several such calls need several
executors, which share the parameters' shards. If a loss depends on several calls, the gradients are added.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import mxnet as mx
from mxnet import autograd

from tofu.errors import UnsupportedError
from tofu.mxnet.frontend.inference import ShapeInferenceError
from tofu.mxnet.gluon.call import BlockCall, needs_gradient
from tofu.mxnet.gluon.parameter import Sharded
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, add
from tofu.mxnet.runtime.arrays.shards import ShardedTensor, as_legacy
from tofu.mxnet.runtime.executor.monitoring import watch_operators
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.runtime.symbol.replanning import Replanner
from tofu.plan import Plan

MOST_EXECUTORS = 4
"""Number of unused executors to keep, so that inputs may alternate between several shapes."""


class BoundExecutor:
    """An executor of a Gluon block, and the recorded call that uses it."""

    def __init__(self, key: Any, executor: ShardedExecutor) -> None:
        self.key = key
        self.executor = executor
        self.call: Any = None  # a weak reference to the last call
        # Gradients in this executor's memory, by parameter. The array may no longer belong to the parameter.
        self.gradients: dict[str, tuple[weakref.ref[ParameterArray], ShardedTensor]] = {}

    @property
    def is_free(self) -> bool:
        """True if no recorded call needs this executor for its backward pass."""
        call = None if self.call is None else self.call()
        return call is None or call.is_done


class PartitionedOperator:
    """A Gluon block's graph on several devices. Callers use it like MXNet's CachedOp.

    `parameters` maps names of arguments, and of auxiliary states such as moving means, to Gluon parameters.
    """

    def __init__(self, symbol: PartitionedSymbol, parameters: Mapping[str, Sharded]) -> None:
        self.symbol = symbol
        self.parameters = dict(parameters)
        self.names = list(symbol.list_inputs())
        self._arguments = frozenset(symbol.list_arguments())
        self._states = frozenset(symbol.list_auxiliary_states())
        self._replanner = Replanner(symbol.compile_for)
        # The parameters and inputs that had gradients in the last training.
        self._training_gradients: tuple[str, ...] | None = None
        self._executors: list[BoundExecutor] = []  # the last used executor comes last
        self._operator_hook: tuple[Any, bool] | None = None
        self.finished: list[BlockCall] = []  # calls whose backward was started since the last `settle`
        self.anchor = _make_anchor(mx.cpu(0))
        self.lock = threading.RLock()  # lets one thread run at a time
        for parameter in self.parameters.values():
            parameter.follow(self)

    @property
    def training_plan(self) -> Plan | None:
        """The first plan for training, or None before training."""
        return self._replanner.find_first_plan(self._training_gradients)

    def runs(self, symbol: Any, parameters: Mapping[str, Any]) -> bool:
        """Return True if the operator was built from an equal graph (`symbol`) and the same parameters."""
        is_same = self.parameters.keys() == parameters.keys() and all(
            parameters[name] is parameter for name, parameter in self.parameters.items()
        )
        return is_same and bool(self.symbol.whole.tojson() == symbol.tojson())

    def __call__(self, *arrays: Any) -> Any:
        """Run the forward pass. Return the output, or a list if there are several."""
        # MXNet's own threads run Python operators, such as the backward of an autograd.Function. If such a thread waited
        # here, the gradients that depend on it would never be computed.
        is_mxnet_thread = isinstance(threading.current_thread(), threading._DummyThread)
        if (is_mxnet_thread and self.finished) or not self.lock.acquire(blocking=not is_mxnet_thread):
            raise UnsupportedError(
                "A partitioned block is called inside of a Python operator (autograd.Function, Custom) during a backward, which would "
                "deadlock. Call it outside of the operator, and pass its output in."
            )
        try:
            return self._run_or_record(arrays)
        finally:
            self.lock.release()

    def _run_or_record(self, arrays: Sequence[Any]) -> Any:
        self.settle()
        array_by_name = dict(zip(self.names, arrays, strict=True))
        user_inputs = {name: array for name, array in array_by_name.items() if name not in self.parameters}
        inputs = {name: as_legacy(array) for name, array in user_inputs.items()}
        context = next(iter(inputs.values())).context
        if context != self.anchor.context:
            self.anchor = _make_anchor(context)
        is_recorded = autograd.is_recording() and self._is_differentiable(inputs)
        if is_recorded and not autograd.is_training():
            raise UnsupportedError(
                "A partitioned block can only be differentiated in training mode: use autograd.record(), not record(train_mode=False)."
            )
        outputs = self._record(inputs) if is_recorded else self._run(inputs)
        if any(isinstance(array, mx.np.ndarray) for array in user_inputs.values()):
            outputs = [output.as_np_ndarray() for output in outputs]
        return outputs[0] if len(outputs) == 1 else outputs

    def _register_op_hook(self, callback: Any, monitor_all: bool = False) -> None:
        if self._operator_hook != (callback, monitor_all):
            self._operator_hook = callback, monitor_all
            for bound in self._executors:
                watch_operators(bound.executor, callback, monitor_all)

    def _is_differentiable(self, inputs: Mapping[str, Any]) -> bool:
        return bool(self._list_trained()) or any(map(needs_gradient, inputs.values()))

    def _list_trained(self) -> tuple[str, ...]:
        return tuple(
            n for n, parameter in self.parameters.items() if n in self._arguments and parameter.grad_req != "null"
        )

    def count_before_parameters(self, differentiated: Collection[str]) -> int:
        """Return how many inputs in `differentiated` come before the first trained parameter."""
        trained = set(self._list_trained())
        first_trained = next((position for position, name in enumerate(self.names) if name in trained), 0)
        return sum(name in differentiated for name in self.names[:first_trained])

    def _run(self, inputs: Mapping[str, Any]) -> list[Any]:
        is_train = autograd.is_training()
        bound = self._bind(inputs, self._list_trained() if is_train else None, ())
        with autograd.pause(train_mode=is_train):
            return self.forward(bound, inputs, is_train)

    def _record(self, inputs: Mapping[str, Any]) -> list[Any]:
        differentiated = tuple(name for name, array in inputs.items() if needs_gradient(array))
        bound = self._bind(inputs, self._list_trained(), differentiated)
        return BlockCall(self, bound, differentiated).record(inputs)

    # ---- running

    def forward(self, bound: BoundExecutor, inputs: Mapping[str, Any], is_train: bool) -> list[Any]:
        """Run the forward pass on whole inputs. Return whole outputs."""
        executor = bound.executor
        if is_train:
            self._save_gradients(bound)
        for name, array in inputs.items():
            executor.variables[name].scatter(array)
        executor.forward(is_train)
        context = next(iter(inputs.values())).context
        outputs = []
        for index in range(len(executor.partition.graph.outputs)):
            shards = executor.output(index)
            outputs.append(shards.gather(mx.nd.empty(shards.shape, ctx=context, dtype=shards.dtype)))
        if is_train:
            self._note_changes(executor)
        return outputs

    def write_parameters(self, executor: ShardedExecutor) -> None:
        """Copy the current values of the parameters to an executor's shards."""
        for name, array in self._get_parameter_arrays().items():
            current = array.tensor
            if executor.variables[name] is not current:
                executor.variables[name].scatter(current.gather())

    def copy_changes(self, executor: ShardedExecutor) -> None:
        """Copy values that the executor changed, such as moving averages, to the parameters."""
        for name in self._list_changed_variables(executor):
            array = self.parameters[name].array
            if array is not None and executor.variables[name] is not array.layout:
                array.layout.scatter(executor.variables[name].gather())

    def _list_changed_variables(self, executor: ShardedExecutor) -> set[str]:
        return {*self._states, *executor.changed_arguments}.intersection(self.parameters)

    def _note_changes(self, executor: ShardedExecutor) -> None:
        for name in self._list_changed_variables(executor):
            array = self.parameters[name].array
            assert array is not None
            array.note_change()

    @property
    def is_awaited(self) -> bool:
        """True if a backward pass must still run, or if its gradients must still be copied."""
        return bool(self.finished) or not all(bound.is_free for bound in self._executors)

    def settle(self) -> None:
        """Copy the gradients of all finished backward passes to the parameters."""
        if not self.finished:
            return
        with self.lock:
            finished, self.finished = self.finished, []
            # autograd.grad() of inputs does not change the parameters' gradients.
            parameter_calls = [call for call in finished if call.has_parameter_gradients]
            calls_of_last_backward = parameter_calls[-int(self.anchor.grad.asscalar()) :]
            for name in self._list_trained():
                self._put_gradient(name, parameter_calls, calls_of_last_backward)
            for call in finished:
                call.bound.call = None
                self._note_changes(call.bound.executor)

    def _put_gradient(
        self, name: str, finished_calls: Sequence[BlockCall], calls_of_last_backward: Sequence[BlockCall]
    ) -> None:
        parameter = self.parameters[name]
        array, gradient = parameter.array, parameter.gradient
        assert array is not None
        assert gradient is not None
        adds = parameter.grad_req == "add"
        calls = finished_calls if adds else calls_of_last_backward
        calls = [call for call in calls if name in call.bound.executor.differentiated]
        if not calls:
            return
        addends = [call.bound.executor.gradient(name) for call in calls]
        if adds or len(addends) > 1:
            gradient.put(add([*addends, gradient.tensor] if adds else addends))
        else:
            gradient.put(addends[0])
            calls[0].bound.gradients[name] = weakref.ref(gradient), addends[0]
        array._fresh_grad = True

    def _save_gradients(self, bound: BoundExecutor) -> None:
        for name, (reference, tensor) in bound.gradients.items():
            gradient, parameter = reference(), self.parameters[name]
            if gradient is None or gradient.layout is not tensor:
                continue
            is_held_by_user = gradient is not parameter.gradient  # the parameter has a new array
            if is_held_by_user or (parameter.array is not None and parameter.array._fresh_grad):
                gradient.put(add([tensor]))
            else:
                gradient.invalidate()
        bound.gradients = {}

    # ---- binding

    def _bind(
        self, inputs: Mapping[str, Any], trained: tuple[str, ...] | None, differentiated: tuple[str, ...]
    ) -> BoundExecutor:
        shapes = {name: tuple(array.shape) for name, array in inputs.items()}
        types = {name: array.dtype for name, array in {**inputs, **self._get_parameter_arrays()}.items()}
        key = (
            tuple(sorted(shapes.items())),
            tuple(sorted((name, dtype.__name__) for name, dtype in types.items())),
            trained,
            differentiated,
        )
        bound = next((b for b in self._executors if b.is_free and _can_run(b.key, key)), None)
        if bound is None:
            bound = BoundExecutor(key, self._make_executor(shapes, types, trained, differentiated))
        self._executors = [*(b for b in self._executors if b is not bound), bound]
        self._share_parameters(bound)
        self._drop_executors(bound)
        return bound

    def _get_parameter_arrays(self) -> dict[str, Any]:
        arrays = {name: parameter.array for name, parameter in self.parameters.items()}
        return {name: array for name, array in arrays.items() if array is not None and name in self.names}

    def _make_executor(
        self, shapes: Any, types: Any, trained: tuple[str, ...] | None, differentiated: tuple[str, ...]
    ) -> ShardedExecutor:
        shared = {name: array.tensor for name, array in self._get_parameter_arrays().items()}
        settings = self.symbol.settings
        if trained is None:  # a single image, for instance, cannot be split between many workers
            settings = replace(settings, for_training=False, on_infeasible="replicate")

        self._check_shapes(shapes)
        gradients = None if trained is None else (*trained, *differentiated)
        # The present plan keeps the parameters' layout.
        partition = self._replanner.find(shapes, types, gradients, trained or (), settings, self.training_plan)
        executor = self.symbol.bind_shards(partition, shared)
        if gradients is not None:
            self._training_gradients = gradients
        if self._operator_hook is not None:
            watch_operators(executor, *self._operator_hook)
        return executor

    def _check_shapes(self, shapes: Mapping[str, Any]) -> None:
        whole = self.symbol.whole
        try:
            arguments, _, states = whole.infer_shape_partial(**shapes)
        except mx.base.MXNetError:
            return  # binding reports it
        inferred = dict(
            zip((*whole.list_arguments(), *whole.list_auxiliary_states()), (*arguments, *states), strict=True)
        )
        for name, array in self._get_parameter_arrays().items():
            if inferred[name] and 0 not in inferred[name] and tuple(inferred[name]) != array.shape:
                input_shapes = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
                raise ShapeInferenceError(
                    f"The shapes given ({input_shapes}) do not fit the model: {name} has shape {array.shape}, and they ask for "
                    f"{tuple(inferred[name])}."
                )

    def _share_parameters(self, bound: BoundExecutor) -> None:
        for name, array in self._get_parameter_arrays().items():
            array.move(bound.executor.variables[name])

    def _drop_executors(self, last_bound: BoundExecutor) -> None:
        arrays = self._get_parameter_arrays()
        current = [
            bound
            for bound in self._executors
            if not bound.is_free or all(bound.executor.variables[n] is array.layout for n, array in arrays.items())
        ]
        free = [bound for bound in current if bound.is_free and bound is not last_bound]
        oldest = free[: max(0, len(free) + 1 - MOST_EXECUTORS)]
        self._executors = [bound for bound in current if bound not in oldest]


def _make_anchor(context: Any) -> Any:
    anchor = mx.nd.zeros((1,), ctx=context)
    anchor.attach_grad()
    return anchor


def _can_run(executor_key: Any, key: Any) -> bool:
    # An executor for training can also run inference.
    return bool(executor_key[:2] == key[:2] and (executor_key[2:] == key[2:] or key[2] is None))
