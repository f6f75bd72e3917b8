"""Calls of a partitioned block inside `autograd.record()`. Autograd sees each call as one operator."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mxnet as mx
from mxnet import autograd

from tofu import _mxnet
from tofu.errors import TofuError
from tofu.host.interrupts import uninterrupted
from tofu.mxnet.frontend.head_gradients import list_head_gradients

if TYPE_CHECKING:
    from tofu.mxnet.gluon.operator import BoundExecutor, PartitionedOperator

WRITE, WRITE_IN_PLACE, ADD = 1, 2, 3  # MXNet's codes for grad_req; 0 means "null"


class BlockCall:
    """One call of a partitioned block inside `autograd.record()`.

    No other call may use the executor `bound` before this call's backward pass has run. `differentiated` names the
    inputs that need gradients.
    """

    def __init__(self, operator: PartitionedOperator, bound: BoundExecutor, differentiated: Sequence[str]) -> None:
        self.operator = operator
        self.bound = bound
        self.is_done = False
        self.has_parameter_gradients = False  # True if the backward computed them
        self._differentiated = tuple(differentiated)
        self._anchor_position = operator.count_before_parameters(differentiated)

    def record(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Run the forward pass, record it in autograd, and return the outputs."""
        with autograd.pause(train_mode=True):
            outputs = self.operator.forward(self.bound, inputs, is_train=True)
        recorded_inputs = [inputs[name] for name in self._differentiated]
        recorded_inputs.insert(self._anchor_position, self.operator.anchor)
        _mxnet.record_call(list(map(_read_handle, recorded_inputs)), list(map(_read_handle, outputs)), self._backward)
        self.bound.call = weakref.ref(self)
        return outputs

    def _backward(self, head_gradients: Sequence[int], requests: Sequence[int], gradients: Sequence[int]) -> None:
        with uninterrupted(), self.operator.lock:
            if self.is_done:
                raise TofuError(
                    "backward() was called twice after one call of a partitioned block. The first backward has reused the memory of the "
                    "forward results: call the block again."
                )
            requested = list(zip(requests, map(_wrap_handle, gradients), strict=True))
            anchor_request, anchor_gradient = requested.pop(self._anchor_position)
            head_arrays = list(map(_wrap_handle, head_gradients))
            executor = self.bound.executor
            self.is_done = True
            for output, name in list_head_gradients(executor.partition.graph).items():
                executor.variables[name].scatter(head_arrays[output])
            self.operator.write_parameters(executor)
            executor.backward()
            self.operator.copy_changes(executor)
            self.has_parameter_gradients = anchor_request != 0
            self.operator.finished.append(self)
            # Each call adds one to the anchor's gradient.
            _write_gradient(mx.nd.ones_like(anchor_gradient), anchor_request, anchor_gradient)
            for name, (request, gradient) in zip(self._differentiated, requested, strict=True):
                _write_gradient(executor.gradient(name).gather(), request, gradient)


def _read_handle(array: Any) -> int:
    return int(array.handle.value)


def _wrap_handle(handle: int) -> Any:
    return mx.nd.NDArray(ctypes.c_void_p(handle))


def _write_gradient(value: Any, request: int, gradient: Any) -> None:
    if request in (WRITE, WRITE_IN_PLACE):
        value.copyto(gradient)
    elif request == ADD:
        gradient += value.as_in_context(gradient.context)


def needs_gradient(array: Any) -> bool:
    """Return True if autograd needs the gradient of `array`."""
    return _mxnet.needs_gradient(_read_handle(array))
