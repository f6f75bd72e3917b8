"""Calls of a partitioned block inside `autograd.record()`. MXNet's autograd sees each call as one operator."""

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

WRITE, WRITE_IN_PLACE, ADD = 1, 2, 3  # MXNet's codes of gradient requests; 0 means none


class BlockCall:
    """Forward and backward pass of one recorded call. Autograd keeps it as long as its backward may run.

    Parameters
    ----------
    operator
        The operator that was called.
    bound
        The executor. It belongs to this call until the backward has run.
    differentiated
        Names of the inputs whose gradients autograd wants.
    """

    def __init__(self, operator: PartitionedOperator, bound: BoundExecutor, differentiated: Sequence[str]) -> None:
        self.operator = operator
        self.bound = bound
        self.is_done = False
        self.is_of_parameters = False  # True if the backward computed the parameters' gradients
        self._differentiated = tuple(differentiated)
        self._before = operator.count_before_parameters(differentiated)

    def record(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Run the forward pass and record the call in autograd. Return the outputs."""
        with autograd.pause(train_mode=True):
            outputs = self.operator.forward(self.bound, inputs, is_train=True)
        sources = [inputs[name] for name in self._differentiated]
        sources.insert(self._before, self.operator.anchor)
        _mxnet.record_call(list(map(_number, sources)), list(map(_number, outputs)), self._backward)
        self.bound.call = weakref.ref(self)
        return outputs

    def _backward(self, heads: Sequence[int], requests: Sequence[int], gradients: Sequence[int]) -> None:
        """Run the backward pass. Autograd calls this with handles of new arrays."""
        with uninterrupted(), self.operator.lock:
            self._run_backward(heads, requests, gradients)

    def _run_backward(self, heads: Sequence[int], requests: Sequence[int], gradients: Sequence[int]) -> None:
        if self.is_done:
            raise TofuError(
                "backward() was called twice after one call of a partitioned block. The first backward has reused the memory of the "
                "forward results: call the block again."
            )
        asked = list(zip(requests, map(_array, gradients), strict=True))
        request_of_own, own = asked.pop(self._before)
        given = list(map(_array, heads))
        executor = self.bound.executor
        self.is_done = True
        for output, name in list_head_gradients(executor.partition.graph).items():
            executor.variables[name].scatter(given[output])
        self.operator.write_parameters(executor)
        executor.backward()
        self.operator.take_changes(executor)
        self.is_of_parameters = request_of_own != 0
        self.operator.finished.append(self)
        _write(mx.nd.ones_like(own), request_of_own, own)  # each call adds one to the anchor's gradient
        for name, (request, gradient) in zip(self._differentiated, asked, strict=True):
            _write(executor.gradient(name).gather(), request, gradient)


def _number(array: Any) -> int:
    return int(array.handle.value)


def _array(handle: int) -> Any:
    return mx.nd.NDArray(ctypes.c_void_p(handle))


def _write(value: Any, request: int, target: Any) -> None:
    if request in (WRITE, WRITE_IN_PLACE):
        value.copyto(target)
    elif request == ADD:
        target += value.as_in_context(target.context)


def needs_gradient(array: Any) -> bool:
    """Return True if autograd has a path from this array to something that wants a gradient."""
    return _mxnet.needs_gradient(_number(array))
