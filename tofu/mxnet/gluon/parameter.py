"""Gluon parameters that are stored as shards. All methods of a parameter work as before."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mxnet as mx
from mxnet import autograd

from tofu.errors import DeviceError, UnsupportedError
from tofu.mxnet.gluon.trainer import extend_class, send_shards
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, add, on_host
from tofu.mxnet.runtime.arrays.shards import as_legacy


class Sharded(mx.gluon.Parameter):  # type: ignore[misc]  # MXNet is untyped
    """A Gluon parameter whose arrays are split over several devices."""

    _operators: tuple[Any, ...] = ()
    has_sparse_gradient = False
    _data: Any
    _grad: Any

    @property
    def array(self) -> ParameterArray | None:
        """The values, or None before initialization."""
        return self._data[0] if self._data else None

    @property
    def gradient(self) -> ParameterArray | None:
        """The gradient, or None if the parameter has none."""
        return self._grad[0] if self._grad else None

    def data(self, ctx: Any = None) -> Any:
        """Return the values as an NDArray. After `mx.npx.set_np()`, return an `mx.np` array."""
        return _as_user_array(super().data(ctx))

    def grad(self, ctx: Any = None) -> Any:
        """Return the gradient as an NDArray. After `mx.npx.set_np()`, return an `mx.np` array."""
        return _as_user_array(super().grad(ctx))

    def follow(self, operator: Any) -> None:
        """Before each read of values or gradients, let `operator` copy its finished gradients (`operator.settle()`).

        Forget operators of earlier calls when their backward passes have run.
        """
        self._operators = (*self._operators, operator)

    def settle(self) -> None:
        """Copy the gradients of finished backward passes to the parameters."""
        for operator in self._operators:
            operator.settle()
        if len(self._operators) > 1:
            *earlier_operators, last_operator = self._operators
            self._operators = (*(operator for operator in earlier_operators if operator.is_awaited), last_operator)

    @property
    def grad_req(self) -> str:
        """Gradient request: "write", "add" or "null"."""
        request: str = super().grad_req
        return request

    @grad_req.setter
    def grad_req(self, request: str) -> None:
        self.settle()  # finished backward passes still follow the old request
        super(Sharded, type(self)).grad_req.fset(self, request)
        if self.array is not None:
            self.array.gradient = self.gradient

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Initialize the parameter as in Gluon. Arrays that an earlier `data()` returned keep the old values."""
        self.settle()
        old_array = self.array
        super().initialize(*args, **kwargs)
        if old_array is not None and old_array is not self.array:
            old_array.put(add([old_array.tensor]))

    def _set_trainer(self, trainer: Any) -> None:
        super()._set_trainer(trainer)
        send_shards(trainer)

    def _init_impl(self, data: Any, ctx_list: Sequence[Any]) -> None:
        self._set_context(ctx_list)
        self._set_whole(data.copyto(mx.cpu(0)))

    def _set_whole(self, whole: Any) -> None:
        array = ParameterArray(on_host(self.name, as_legacy(whole)), self._check_use)
        array.has_sparse_gradient = self.has_sparse_gradient
        self._data = [array]
        self._init_grad()

    def _set_context(self, contexts: Sequence[Any]) -> None:
        _check_single_context(self.name, contexts)
        context = contexts[0]
        self._ctx_list = [context]
        self._ctx_map: list[list[int | None]] = [[], []]
        self._ctx_map[context.device_typeid & 1] = [None] * context.device_id + [0]

    def _init_grad(self) -> None:
        self._grad = None
        if self.grad_req != "null" and self.array is not None:
            self.array._fresh_grad = False
            gradient = ParameterArray(self.array.layout.zeros_like(), self._check_gradient_use)
            gradient.is_sparse = self.has_sparse_gradient
            self._grad = [gradient]
            self.array.gradient = self.gradient

    def _check_use(self) -> None:
        if autograd.is_recording() and self.grad_req != "null":
            raise UnsupportedError(
                f"{self.name} is used inside autograd.record() but outside of its partitioned block, and its gradient would lack that "
                "part. Use it inside of the block (for weight decay, wd= of the optimizer), read it under autograd.pause(), or do not "
                "share parameters between a partitioned block and another."
            )
        self.settle()

    def _check_gradient_use(self) -> None:
        if self.array is not None:
            self.array.wait_for_writes()
        self.settle()

    def reset_ctx(self, ctx: Any) -> None:
        """Set the context (list of devices) and clear the gradient, as in MXNet. The shards stay where they are."""
        if self._data is None:
            super().reset_ctx(ctx)
        else:
            ctx = mx.context.current_context() if ctx is None else ctx
            self._set_context([ctx] if isinstance(ctx, mx.Context) else ctx)
            self.settle()
            self._init_grad()

    def zero_grad(self) -> None:
        """Set the gradient to zeros."""
        if self.gradient is not None:
            self.settle()
            self.gradient.put(self.gradient.layout.zeros_like())

    def cast(self, dtype: Any) -> None:
        """Convert values and gradient to another type. The next call plans the model again."""
        whole = None if self.array is None else self.array.astype(dtype)
        gradient = None if self.gradient is None or self.gradient.is_invalid else self.gradient.astype(dtype)
        self._data = self._grad = None
        super().cast(dtype)
        if whole is not None:
            self._set_whole(whole)
            if gradient is not None and self.gradient is not None:
                self.gradient[:] = gradient


_reading = threading.local()  # `reads_shards` is True inside `reading_shards`


@contextmanager
def reading_shards() -> Iterator[None]:
    """In a `with` block, let `parameter.data()` return the sharded array even after `mx.npx.set_np()`."""
    was_reading = getattr(_reading, "reads_shards", False)
    _reading.reads_shards = True
    try:
        yield
    finally:
        _reading.reads_shards = was_reading


def _as_user_array(array: Any) -> Any:
    is_numpy = mx.util.is_np_array() and not getattr(_reading, "reads_shards", False)
    return array.as_np_ndarray() if is_numpy else array


def check_parameter(parameter: Any) -> None:
    """Raise TofuError if the parameter cannot be split over workers."""
    if isinstance(parameter, Sharded):
        raise UnsupportedError(
            f"{parameter.name} already belongs to a partitioned block. Partition one block with all of the model's parameters."
        )
    if parameter._stype != "default":
        raise UnsupportedError(
            f"{parameter.name} has {parameter._stype} storage, but a partitioned block has dense shards; leave stype out."
        )
    if parameter._data is not None or parameter._deferred_init:
        _check_single_context(parameter.name, parameter.list_ctx())


def shard_parameter(parameter: Any) -> None:
    """Make a Gluon parameter store its arrays as shards."""
    mx.gluon.ParameterDict.zero_grad = _zero_gradients
    values, gradients, contexts = parameter._data, parameter._grad, parameter._ctx_list
    parameter_class: Any = type(parameter)
    parameter.__class__ = extend_class(parameter_class, Sharded)
    parameter.has_sparse_gradient = parameter._grad_stype != "default"
    parameter._grad_stype = "default"  # Trainers read it, and shards are dense
    if parameter._trainer is not None:
        send_shards(parameter._trainer)
    if values is not None:
        parameter._init_impl(values[0], contexts)
        if gradients is not None:
            parameter.gradient[:] = gradients[0]


_zero_whole_gradients = mx.gluon.ParameterDict.zero_grad


def _zero_gradients(parameters: Any) -> None:
    ordinary = mx.gluon.ParameterDict(parameters.prefix)
    for name, parameter in parameters.items():
        if isinstance(parameter, Sharded):
            parameter.zero_grad()
        else:
            ordinary._params[name] = parameter
    _zero_whole_gradients(ordinary)


def _check_single_context(name: str, contexts: Sequence[Any]) -> None:
    if len(contexts) != 1:
        raise DeviceError(
            f"{name} is initialized on {', '.join(map(str, contexts))}. A partitioned block is distributed over its workers: initialize it "
            "in one context, the context of its inputs, and name the workers' devices in tofu.gluon.partition(net, contexts=[...])."
        )
