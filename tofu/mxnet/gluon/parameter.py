"""Gluon's parameters over shards: every method of theirs works as it did, on arrays that lie where the plan has them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import mxnet as mx
from mxnet import autograd

from tofu.errors import DeviceError, UnsupportedError
from tofu.mxnet.gluon.trainer import send_shards
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, add, on_host
from tofu.mxnet.runtime.arrays.shards import as_legacy


class Sharded(mx.gluon.Parameter):  # type: ignore[misc]  # MXNet is untyped
    """What `shard_parameter` adds to a class of parameters: arrays that may lie in shards."""

    _followed: tuple[Any, ...] = ()
    has_sparse_gradient = False
    _data: Any
    _grad: Any

    @property
    def array(self) -> ParameterArray | None:
        """The values, or None before they are initialized."""
        return self._data[0] if self._data else None

    @property
    def gradient(self) -> ParameterArray | None:
        """The gradient, or None where there is none."""
        return self._grad[0] if self._grad else None

    def data(self, ctx: Any = None) -> Any:
        """The values, as an array of `mx.np` where `mx.npx.set_np()` is on."""
        return _as_asked(super().data(ctx))

    def grad(self, ctx: Any = None) -> Any:
        """The gradient, as an array of `mx.np` where `mx.npx.set_np()` is on."""
        return _as_asked(super().grad(ctx))

    def follow(self, operator: Any) -> None:
        """Have `operator.settle()` called before values or gradients are read, so that they are those of the last backward.

        An operator that was followed before, of the block as it was, is so as long as calls of it wait for their backward.
        """
        self._followed = (*self._followed, operator)

    def settle(self) -> None:
        """Have what ran put its results here."""
        for operator in self._followed:
            operator.settle()
        if len(self._followed) > 1:
            *earlier, last = self._followed
            self._followed = (*(operator for operator in earlier if operator.is_awaited), last)

    @property
    def grad_req(self) -> str:
        """What becomes of gradients."""
        request: str = super().grad_req
        return request

    @grad_req.setter
    def grad_req(self, request: str) -> None:
        self.settle()  # what was differentiated before belongs to the gradient that was there
        super(Sharded, type(self)).grad_req.fset(self, request)
        if self.array is not None:
            self.array.gradient = self.gradient

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """As Gluon's. An array of before keeps its values, in shards of its own: those where it lay are the new array's."""
        self.settle()
        before = self.array
        super().initialize(*args, **kwargs)
        if before is not None and before is not self.array:
            before.put(add([before.tensor]))

    def _set_trainer(self, trainer: Any) -> None:
        super()._set_trainer(trainer)
        send_shards(trainer)

    def _init_impl(self, data: Any, ctx_list: Sequence[Any]) -> None:
        self._place(ctx_list)
        self._hold(data.copyto(mx.cpu(0)))

    def _hold(self, whole: Any) -> None:
        array = ParameterArray(on_host(self.name, as_legacy(whole)), self._check_use)
        array.has_sparse_gradient = self.has_sparse_gradient
        self._data = [array]
        self._init_grad()

    def _place(self, contexts: Sequence[Any]) -> None:
        """Note where the user has the parameter. The arrays are in the host's memory and, once there is a plan, on the workers."""
        _check_one(self.name, contexts)
        context = contexts[0]
        self._ctx_list = [context]
        self._ctx_map: list[list[int | None]] = [[], []]
        self._ctx_map[context.device_typeid & 1] = [None] * context.device_id + [0]

    def _init_grad(self) -> None:
        """Gradients of zeros beside the values, which autograd does not know of and no Trainer has to use."""
        self._grad = None
        if self.grad_req != "null" and self.array is not None:
            self.array._fresh_grad = False
            gradient = ParameterArray(self.array.layout.zeros_like(), self._check_gradient_use)
            gradient.is_sparse = self.has_sparse_gradient
            self._grad = [gradient]
            self.array.gradient = self.gradient

    def _check_use(self) -> None:
        """The whole array has no part in what autograd records: its gradient would lack what flows through the array itself."""
        if autograd.is_recording() and self.grad_req != "null":
            raise UnsupportedError(
                f"{self.name} is used inside autograd.record(), outside of the partitioned block that it belongs to, and its "
                "gradient would lack that part. Compute with it inside of the block (weight decay: wd= of the optimizer), read it under "
                "autograd.pause(), or share no parameters between a partitioned block and another."
            )
        self.settle()

    def _check_gradient_use(self) -> None:
        """A Trainer over machines pulls initial values and then sends gradients, by the same key and with nothing between the two in
        MXNet's engine: gradients that arrive first would be pulled as the values.
        """
        if self.array is not None:
            self.array.wait_for_writes()
        self.settle()

    def reset_ctx(self, ctx: Any) -> None:
        """Where the parameter is said to be; its shards stay where they are, and its gradient begins with zeros, as in MXNet."""
        if self._data is None:
            super().reset_ctx(ctx)
        else:
            ctx = mx.context.current_context() if ctx is None else ctx
            self._place([ctx] if isinstance(ctx, mx.Context) else ctx)
            self.settle()
            self._init_grad()

    def zero_grad(self) -> None:
        """Set the gradient to zeros."""
        if self.gradient is not None:
            self.settle()
            self.gradient.put(self.gradient.layout.zeros_like())

    def cast(self, dtype: Any) -> None:
        """Another type for values and gradient; the model is planned anew."""
        whole = None if self.array is None else self.array.astype(dtype)
        gradient = None if self.gradient is None or self.gradient.is_lapsed else self.gradient.astype(dtype)
        self._data = self._grad = None
        super().cast(dtype)
        if whole is not None:
            self._hold(whole)
            if gradient is not None and self.gradient is not None:
                self.gradient[:] = gradient


_taking = threading.local()


@contextmanager
def taken_as_they_lie() -> Iterator[None]:
    """Within it this thread's calls of `data()` are Gluon's own, which hands shards over to a block's operator."""
    before = getattr(_taking, "is_on", False)
    _taking.is_on = True
    try:
        yield
    finally:
        _taking.is_on = before


def _as_asked(array: Any) -> Any:
    is_of_user = mx.util.is_np_array() and not getattr(_taking, "is_on", False)
    return array.as_np_ndarray() if is_of_user else array


def check_parameter(parameter: Any) -> None:
    """Raise a TofuError for a parameter that cannot lie in shards."""
    if isinstance(parameter, Sharded):
        raise UnsupportedError(
            f"{parameter.name} belongs to a partitioned block already. Partition the one block that has all of the model's parameters."
        )
    if parameter._stype != "default":
        raise UnsupportedError(
            f"{parameter.name} has {parameter._stype} storage, and lies in dense shards in a partitioned block; leave stype out."
        )
    if parameter._data is not None or parameter._deferred_init:
        _check_one(parameter.name, parameter.list_ctx())


def shard_parameter(parameter: Any) -> None:
    """Have a parameter of Gluon keep its arrays in shards, wherever it is used already."""
    mx.gluon.ParameterDict.zero_grad = _zero_gradients
    values, gradients, contexts = parameter._data, parameter._grad, parameter._ctx_list
    kind: Any = type(parameter)
    parameter.__class__ = _sharded(kind)
    parameter.has_sparse_gradient = parameter._grad_stype != "default"
    parameter._grad_stype = "default"  # what Trainers ask for, and shards have
    if parameter._trainer is not None:
        send_shards(parameter._trainer)
    if values is not None:
        parameter._init_impl(values[0], contexts)
        if gradients is not None:
            parameter.gradient[:] = gradients[0]


_zero_whole_gradients = mx.gluon.ParameterDict.zero_grad


def _zero_gradients(parameters: Any) -> None:
    """`ParameterDict.zero_grad`, which hands all gradients to one operator: those in shards would be made whole for it, and may be gone."""
    others = mx.gluon.ParameterDict(parameters.prefix)
    for name, parameter in parameters.items():
        if isinstance(parameter, Sharded):
            parameter.zero_grad()
        else:
            others._params[name] = parameter
    _zero_whole_gradients(others)


def _check_one(name: str, contexts: Sequence[Any]) -> None:
    if len(contexts) != 1:
        raise DeviceError(
            f"{name} is initialized on {', '.join(map(str, contexts))}. A partitioned block spreads itself over its workers: initialize it "
            "on one context, where its inputs will be, and name the workers' devices in tofu.gluon.partition(net, contexts=[...])."
        )


@cache
def _sharded(kind: Any) -> type:
    return type(f"Sharded{kind.__name__}", (Sharded, kind), {})
