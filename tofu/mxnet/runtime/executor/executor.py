"""An executor with the interface of `mx.executor.Executor`, so that scripts and modules of MXNet run unchanged.

Callers use whole arrays on the host. Workers store shards. If a caller changes a whole array, the executor copies it to
the shards before the next step. After the step, the executor copies results to whole arrays. Parameters from
`simple_bind`, and their gradients, have no whole arrays until a caller reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import mxnet as mx

from tofu.errors import ArgumentTypeError, ShapeError, TofuError, raise_together
from tofu.mxnet.frontend.inference import ShapeInferenceError, check_shapes, infer_arguments
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, add_to, copy_into
from tofu.mxnet.runtime.arrays.shards import ShardedTensor, count_writes, digest
from tofu.mxnet.runtime.executor.bound_arrays import view_beginning
from tofu.mxnet.runtime.executor.failures import explaining_memory, raise_failure
from tofu.mxnet.runtime.executor.modes import draws_in_inference, has_two_modes
from tofu.mxnet.runtime.executor.monitoring import watch_whole
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.pipeline import Partition
from tofu.validation import show_with_type

Compile = Callable[[Mapping[str, tuple[int, ...]]], Partition]  # plans for shapes of the inputs


class Executor:
    """A partitioned model with the interface of `mx.executor.Executor`. Callers use whole arrays.

    Parameters
    ----------
    arguments, gradients, states
        Whole arrays by name, or None for arrays that exist only as shards.
    grad_req
        "write", "add" or "null" for each argument.
    compile_for
        Function that plans the model for other input shapes.
    shared
        Another executor with the same arrays. Both use the same shards of each array that their plans split equally.
    """

    def __init__(
        self,
        symbol: Any,
        partition: Partition,
        contexts: Sequence[Any],
        shapes: Mapping[str, tuple[int, ...]],
        arguments: Mapping[str, Any],
        gradients: Mapping[str, Any],
        states: Mapping[str, Any],
        grad_req: Mapping[str, str],
        compile_for: Compile,
        shared: Executor | None = None,
    ) -> None:
        self._symbol = symbol
        self.plan = partition.plan
        self.arg_dict = dict(arguments)
        self.grad_dict = {name: gradients.get(name) for name in self.arg_dict}
        self.aux_dict = dict(states)
        # mx.test_utils reads the attribute _ctx.
        self._ctx = next((array.ctx for array in self.arg_arrays if array is not None), mx.cpu(0))
        self._shapes = dict(shapes)
        self._grad_req = dict(grad_req)
        self._compile_for = compile_for
        self._monitor: tuple[Any, bool] | None = None
        parameters: dict[str, ShardedTensor] = {}
        if shared is not None:
            parameters = {
                name: variable
                for name, variable in shared.sharded.variables.items()
                if self.arg_dict.get(name) is shared.arg_dict.get(name)
                and self.aux_dict.get(name) is shared.aux_dict.get(name)
            }
        with explaining_memory(partition.plan, contexts, "the whole arrays of the model"):
            whole_arrays = [*self.arg_dict.values(), *self.aux_dict.values(), *gradients.values()]
            raise_failure([array for array in whole_arrays if array is not None])
        sharded_gradients = [name for name, array in gradients.items() if array is None]
        keeps_gradients = any(self._grad_req[name] == "write" for name in sharded_gradients)
        self.sharded: ShardedExecutor = ShardedExecutor(partition, contexts, parameters, keeps_gradients)
        for arrays in (self.arg_dict, self.aux_dict):
            for name in [name for name, array in arrays.items() if array is None]:
                arrays[name] = ParameterArray(self.sharded.variables[name])
        self._kept_gradients = self.sharded.kept_gradients.intersection(sharded_gradients)
        for name in sharded_gradients:
            self.grad_dict[name] = ParameterArray(self.sharded.variables[name].zeros_like())

    @property
    def arg_arrays(self) -> list[Any]:
        """Whole arguments, in the order of `list_arguments()`."""
        return list(self.arg_dict.values())

    @property
    def grad_arrays(self) -> list[Any]:
        """Whole gradients, in the order of `list_arguments()`. None for arguments with grad_req "null"."""
        return list(self.grad_dict.values())

    @property
    def aux_arrays(self) -> list[Any]:
        """Whole auxiliary states (such as moving means), in the order of `list_auxiliary_states()`."""
        return list(self.aux_dict.values())

    @cached_property
    def outputs(self) -> list[Any]:
        """Whole outputs. Each forward pass overwrites them."""
        graph = self.sharded.partition.graph
        outputs = [graph.tensors[position] for position in graph.outputs]
        return [mx.nd.zeros(tensor.shape, ctx=self._ctx, dtype=tensor.dtype) for tensor in outputs]

    @property
    def output_dict(self) -> dict[str, Any]:
        """Whole outputs by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs, strict=True))

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[Any]:
        """Set the inputs in `kwargs`, run the forward pass, and return the outputs."""
        if isinstance(is_train, mx.nd.NDArray):
            raise ArgumentTypeError(
                "forward's first argument is is_train. Inputs are given by name: forward(data=array)."
            )
        for name, array in kwargs.items():
            if name not in self.arg_dict:
                raise ArgumentTypeError(f"The model has no argument {name}. It has {', '.join(self.arg_dict)}.")
            if not hasattr(array, "shape"):
                raise ArgumentTypeError(
                    f"{name} takes an array, not {show_with_type(array)}. Write {name}=mx.nd.array(...)."
                )
            if tuple(array.shape) != tuple(self.arg_dict[name].shape):
                raise ShapeError(
                    f"{name} was bound with shape {self.arg_dict[name].shape}, the array given has {tuple(array.shape)}."
                )
            self.arg_dict[name][:] = array
        self._scatter_changed(finds_uncounted_writes=True)
        self.sharded.forward(bool(is_train), for_backward=self._saves_random_inference)
        self.sharded.wait()  # report failures before any whole array is written
        for position, whole in enumerate(self.outputs):
            self.sharded.output(position).gather(whole)
        if is_train:
            for name in self.sharded.changed_arguments:
                self._gather_changed(name, self.arg_dict[name])
        for name in self.sharded.states_changed_by_forward:
            self._gather_changed(name, self.aux_dict[name])
        return self.outputs

    @cached_property
    def _saves_random_inference(self) -> bool:
        sharded = self.sharded
        return (
            bool(sharded.differentiated)
            and not sharded.changed_arguments
            and draws_in_inference(sharded.partition.graph)
        )

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Run the backward pass. Write gradients to `grad_dict`, or add them if `grad_req` is "add".

        `out_grads` has a gradient for every output that is not a loss. If no forward pass has run, run it first. Raise
        TofuError if the gradients would be wrong after a forward pass for inference.
        """
        is_train = bool(is_train) or not has_two_modes(self.sharded.partition.graph)
        self._scatter_head_gradients(out_grads)
        if not self.sharded.has_begun:
            self._scatter_changed(finds_uncounted_writes=True)
            self.sharded.forward(is_train, for_backward=True)
        self.sharded.prepare_backward(is_train)
        self._scatter_changed(finds_uncounted_writes=False)
        self.sharded.backward(is_train)
        self.sharded.wait()  # report failures before any whole array is written
        self._put_gradients()
        for name, state in self.aux_dict.items():
            self._gather_changed(name, state)

    def _put_gradients(self) -> None:
        graph = self.sharded.partition.graph
        copied_gradients: list[tuple[ParameterArray, ShardedTensor]] = []
        for position in graph.gradients:
            name = graph.tensors[position].name
            gradient, caller_array = self.sharded.gradient(name), self.grad_dict[name]
            if self._grad_req[name] == "add":
                add_to(caller_array, gradient)
            elif not isinstance(caller_array, ParameterArray):
                gradient.gather(caller_array)
            elif name in self._kept_gradients:
                caller_array.put(gradient)
            else:
                copied_gradients.append((caller_array, gradient))
        copy_into(copied_gradients)

    def _gather_changed(self, name: str, whole: Any) -> None:
        variable = self.sharded.variables[name]
        if isinstance(whole, ParameterArray):
            whole.note_change()
            return
        variable.gather(whole)
        variable.source = count_writes(whole), None

    def _scatter_changed(self, finds_uncounted_writes: bool) -> None:
        # MXNet counts its own writes. Writes by other libraries change the array's digest.
        for name, whole in (*self.arg_dict.items(), *self.aux_dict.items()):
            variable = self.sharded.variables[name]
            if isinstance(whole, ParameterArray):
                whole.move(variable)  # copies the values that were written to the whole array
                if finds_uncounted_writes:
                    whole.scatter_uncounted_writes()
                continue
            writes, last_source = count_writes(whole), variable.source
            is_counted = last_source is None or last_source[0] != writes
            if is_counted or finds_uncounted_writes:
                variable.source = writes, None if is_counted else digest(whole)
                if variable.source != last_source:
                    variable.scatter(whole)

    def _scatter_head_gradients(self, out_grads: Any) -> None:
        names = self._symbol.list_outputs()
        if out_grads is None:
            gradients = []
        elif isinstance(out_grads, Mapping):
            gradients = [out_grads.get(name) for name in names]
        else:
            gradients = [out_grads] if isinstance(out_grads, mx.nd.NDArray) else list(out_grads)
        self.sharded.scatter_head_gradients(gradients, names)

    def copy_params_from(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy parameters, and auxiliary states such as moving means, into this executor's arrays.

        Raise TofuError for unknown names.
        """
        arguments = [(self.arg_dict, name, value, "arguments") for name, value in arg_params.items()]
        states = [(self.aux_dict, name, value, "auxiliary states") for name, value in (aux_params or {}).items()]
        parameters = [*arguments, *states]
        unknown = [f"{name} is not among the {kind}" for bound, name, _, kind in parameters if name not in bound]
        if not allow_extra_params:
            raise_together(
                TofuError, "The model does not have these parameters (allow_extra_params=True ignores them):", unknown
            )
        pairs = [(bound[name], name, value) for bound, name, value, _ in parameters if name in bound]
        misshapen = [
            f"{name}: {tuple(value.shape)} given, {tuple(array.shape)} bound"
            for array, name, value in pairs
            if tuple(array.shape) != tuple(value.shape)
        ]
        raise_together(ShapeError, "These parameters have another shape:", misshapen)
        for array, _, value in pairs:
            array[:] = value.astype(array.dtype)

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: tuple[int, ...]
    ) -> Executor:
        """Return an executor for the input shapes in `kwargs`. Both executors share arrays.

        Raise ShapeError if other arguments change their shapes (allowed by `partial_shaping`), or if any array grows
        (allowed by `allow_up_sizing`).
        """
        check_shapes(kwargs)
        shapes = {**self._shapes, **{name: tuple(shape) for name, shape in kwargs.items()}}
        partition = self._compile_for(shapes)
        types = {name: array.dtype for name, array in self.arg_dict.items()}
        new_shapes, _ = infer_arguments(self._symbol, shapes, types)
        old_shapes = {n: tuple(array.shape) for n, array in (*self.arg_dict.items(), *self.aux_dict.items())}
        for is_allowed, headline, names in (
            (
                partial_shaping,
                "The new shapes change arguments that were not named (partial_shaping=True allows it):",
                [n for n, s in old_shapes.items() if s != new_shapes[n] and n not in shapes and n in self.arg_dict],
            ),
            (
                allow_up_sizing,
                "These arrays are too small for the new shapes (allow_up_sizing=True makes new ones):",
                [n for n, s in old_shapes.items() if prod(s) < prod(new_shapes[n])],
            ),
        ):
            if not is_allowed:
                changes = [f"{name}: {old_shapes[name]} becomes {new_shapes[name]}" for name in names]
                raise_together(ShapeInferenceError, headline, changes)
        reshaped = Executor(
            self._symbol,
            partition,
            self.sharded.contexts,
            shapes,
            _resize_arrays(self.arg_dict, new_shapes),
            _resize_arrays({name: array for name, array in self.grad_dict.items() if array is not None}, new_shapes),
            _resize_arrays(self.aux_dict, new_shapes),
            self._grad_req,
            self._compile_for,
            shared=self,
        )
        if self._monitor is not None:
            reshaped.set_monitor_callback(*self._monitor)
        reshaped.outputs = [  # as in MXNet, both executors write to the same memory
            _resize_array(array, tuple(partition.graph.tensors[position].shape))
            for array, position in zip(self.outputs, partition.graph.outputs, strict=True)
        ]
        return reshaped

    def set_monitor_callback(self, callback: Any, monitor_all: bool = False) -> None:
        """Call `callback(name, pointer)` for each array that the model computes."""
        self._monitor = callback, monitor_all
        watch_whole(self.sharded, callback, monitor_all)

    def debug_str(self) -> str:
        """Return MXNet's description of the graph that all workers run."""
        return self.sharded.debug_str()


def _resize_arrays(arrays: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    return {name: _resize_array(array, shapes[name]) for name, array in arrays.items()}


def _resize_array(array: Any, shape: tuple[int, ...]) -> Any:
    if tuple(array.shape) == shape:
        return array
    if array.stype != "default" or array.size < prod(shape):
        return mx.nd.zeros(shape, ctx=array.ctx, dtype=array.dtype, stype=array.stype)
    return view_beginning(array, shape)
