"""The part of `tofu.mod.Module` that runs batches and returns outputs, gradients and states as whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import ArgumentTypeError, NotReadyError, ShapeError, TofuError
from tofu.mxnet.frontend.inference import infer_arguments
from tofu.mxnet.runtime.executor.monitoring import MonitoredShards
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.mxnet.runtime.module.binding import ShardedModule
from tofu.mxnet.runtime.symbol.arguments import check_iterator
from tofu.validation import show_with_type


class RunningModule(ShardedModule):
    """Base class of `tofu.mod.Module` that runs a bound model."""

    def _rebind_for(self, data_batch: Any) -> None:
        labels = getattr(data_batch, "label", None) or []
        shapes = [tuple(array.shape) for array in [*data_batch.data, *labels]]
        bound_shapes = [tuple(desc.shape) for desc in [*self._data_shapes, *self._label_shapes]][: len(shapes)]
        if shapes == bound_shapes:
            return
        data_count = len(data_batch.data)
        self._check_count(data_batch.data)
        with self._restoring_on_error():
            if shapes[:data_count] != bound_shapes[:data_count]:
                self._data_shapes = _sort_like(getattr(data_batch, "provide_data", None), self._data_shapes)
                self._label_shapes = _sort_like(getattr(data_batch, "provide_label", None), self._label_shapes)
            label_shapes = shapes[data_count:] or self._infer_label_shapes(data_batch.data)
            self._data_shapes = list(map(_with_shape, self._data_shapes, shapes))
            self._label_shapes = list(map(_with_shape, self._label_shapes, label_shapes))
            old_executor = self.executor
            self._rebind()
            self.executor.gradients.forget(old_executor.gradients)

    def _infer_label_shapes(self, data: Sequence[Any]) -> list[tuple[int, ...]]:
        shapes = {desc.name: tuple(array.shape) for desc, array in zip(self._data_shapes, data, strict=True)}
        try:
            inferred, _ = infer_arguments(self._symbol, shapes, {})
        except ShapeError:  # use the bound shapes with the new batch size
            bound_samples, samples = self._data_shapes[0].shape[0], data[0].shape[0]
            return [(desc.shape[0] * samples // bound_samples, *desc.shape[1:]) for desc in self._label_shapes]
        return [inferred[desc.name] for desc in self._label_shapes]

    def _check_count(self, data: Sequence[Any]) -> None:
        if len(data) != len(self._data_shapes):
            raise ShapeError(
                f"The batch does not fit the model: it has {len(data)} arrays for the {len(self._data_shapes)} inputs "
                f"{', '.join(self._batch_data_names)}. Give one for each, in their order."
            )

    @property
    def _batch_data_names(self) -> list[str]:
        return [desc.name for desc in self._data_shapes]  # as in MXNet, a batch has the order of the bound shapes

    @property
    def _batch_label_names(self) -> list[str]:
        return [desc.name for desc in self._label_shapes] or self._label_names

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Copy a batch to the workers, and run the forward pass.

        A batch with new shapes binds the module again.
        """
        self._check_ready()
        if not hasattr(data_batch, "data"):
            raise ArgumentTypeError(
                f"forward takes a batch with a list of arrays in its `data`, not a {type(data_batch).__name__}. Write "
                "module.forward(mx.io.DataBatch([array]))."
            )
        self._rebind_for(data_batch)
        variables = self.executor.variables
        for name, array in zip(self._batch_data_names, data_batch.data, strict=True):
            variables[name].scatter(array)
        for name, array in zip(self._batch_label_names, getattr(data_batch, "label", None) or (), strict=False):
            variables[name].scatter(array)
        self.executor.forward(self.for_training if is_train is None else is_train)

    def score(self, *args: Any, **kwargs: Any) -> Any:
        """Compute a metric on all batches of an iterator, as in MXNet."""
        self._check_ready()
        check_iterator("score", args, kwargs, "eval_data")
        return super().score(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for all batches of an iterator, as in MXNet."""
        self._check_ready()
        return super().predict(*args, **kwargs)

    def iter_predict(self, *args: Any, **kwargs: Any) -> Any:
        """Yield the outputs for each batch of an iterator, as in MXNet."""
        self._check_ready()
        return super().iter_predict(*args, **kwargs)

    def _check_ready(self) -> ShardedExecutor:
        executor = self.executor
        if not self.params_initialized:
            raise NotReadyError(
                "The module has no parameters yet: call init_params(...) or set_params(...) first, again if it was cut short."
            )
        return executor

    def backward(self, out_grads: Any = None) -> None:
        """Run the backward pass.

        `out_grads` is a gradient or a list of gradients: one for each output that is not a loss.
        """
        if self.binded and not self.for_training:
            raise NotReadyError(
                "The module was bound with for_training=False: bind it with for_training=True to run backward()."
            )
        is_single = isinstance(out_grads, (mx.nd.NDArray, np.ndarray))
        gradients = [out_grads] if is_single else list(out_grads or ())
        self.executor.scatter_head_gradients(gradients, self.output_names)
        self.executor.backward()

    # ---- results

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the whole outputs.

        If `merge_multi_context` is False, each output is a list with a slice of the batch for each device.
        """
        whole = [self.executor.output(index).gather() for index in range(len(self.output_names))]
        if merge_multi_context:
            return whole
        attributes = self._symbol.whole.attr_dict()
        layouts = [attributes.get(output.name, {}).get("__layout__") for output in self._symbol.whole]
        return [self._slice_batch(array, layout) for array, layout in zip(whole, layouts, strict=True)]

    def _slice_batch(self, whole: Any, layout: str | None) -> list[Any]:
        if self._context_count == 1:
            return [whole]
        return _slice_along_batch(whole, find_batch_axis(layout), self._exec_group.batch_size, self._context_count)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the gradients of the data inputs. Call `bind(..., inputs_need_grad=True)` first.

        If `merge_multi_context` is False, each gradient is a list with a slice of the batch for each device.
        """
        if not self.inputs_need_grad:
            raise NotReadyError("The inputs have no gradients: bind with inputs_need_grad=True.")
        whole = [self.executor.gradient(name).gather() for name in self._batch_data_names]
        whole = [
            array.as_in_context(self._context_by_variable[name])
            for array, name in zip(whole, self._batch_data_names, strict=True)
        ]
        if merge_multi_context:
            return whole
        return [self._slice_batch(array, desc.layout) for array, desc in zip(whole, self._data_shapes, strict=True)]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with labels and outputs.

        If `pre_sliced` is True, `labels` is a list that contains the list of labels.
        """
        if not hasattr(eval_metric, "update_dict"):
            raise ArgumentTypeError(
                f"update_metric takes a metric, not {show_with_type(eval_metric)}. Write mx.metric.create('acc')."
            )
        eval_metric.update_dict(
            dict(zip(self._batch_label_names, labels[0] if pre_sliced else labels, strict=False)),
            dict(zip(self.output_names, self.get_outputs(), strict=True)),
        )

    # ---- states

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the values of the inputs in `state_names`.

        If `merge_multi_context` is False, each value is a list with a slice of the batch for each device.
        """
        whole = [self._check_ready().variables[name].gather() for name in self._state_names]
        return whole if merge_multi_context else [self._slice_batch(array, None) for array in whole]

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the inputs in `state_names` to arrays (`states`) or to a number (`value`)."""
        variables = self._check_ready().variables
        if (states is None) == (value is None):
            raise TofuError("set_states takes either states=, an array for each of state_names, or value=, a number.")
        if states is None:
            states = [
                mx.nd.full(variables[name].shape, value, dtype=variables[name].dtype) for name in self._state_names
            ]
        arrays = [_join_slices(state, find_batch_axis(None)) for state in states]
        if len(arrays) != len(self._state_names):
            raise TofuError(
                f"set_states got {len(arrays)} arrays for the {len(self._state_names)} states {self._state_names}."
            )
        for name, array in zip(self._state_names, arrays, strict=True):
            variables[name].scatter(array)

    def install_monitor(self, mon: Any) -> None:
        """Show whole arrays to an `mx.mon.Monitor`."""
        mon.install(MonitoredShards(lambda: self.executor, self._symbol.whole))
        self._monitors.append(mon.exes[-1])


def _sort_like(batch_descriptions: Any, bound_descriptions: list[Any]) -> list[Any]:
    names = [description[0] for description in batch_descriptions or ()]
    bound_by_name = {desc.name: desc for desc in bound_descriptions}
    return [bound_by_name[name] for name in names] if sorted(names) == sorted(bound_by_name) else bound_descriptions


def _with_shape(desc: Any, shape: Sequence[int]) -> Any:
    return mx.io.DataDesc(desc.name, tuple(shape), desc.dtype, desc.layout)


def find_batch_axis(layout: str | None) -> int:
    """Return the position of the batch dimension "N" in a layout, or -1. Return 0 if `layout` is None.

    >>> find_batch_axis("TNC")
    1
    """
    return int(mx.io.DataDesc.get_batch_axis(layout))


def _slice_along_batch(whole: Any, axis: int, samples: int, slices: int) -> list[Any]:
    if axis < 0 or not whole.shape or whole.shape[axis] % samples or samples < slices:
        return [whole] * slices
    rows = whole.shape[axis] // samples  # rows of each sample
    sizes = [round(samples / slices)] * (slices - 1)
    bounds = [0, *accumulate(sizes), samples]
    return [mx.nd.slice_axis(whole, axis=axis, begin=begin * rows, end=end * rows) for begin, end in pairwise(bounds)]


def _join_slices(slices: Sequence[Any], axis: int) -> Any:
    if not isinstance(slices, (list, tuple)):
        return slices
    return slices[0] if len(slices) == 1 or axis < 0 else mx.nd.concat(*slices, dim=axis)
