"""Runs of a training step and of a forward pass for inference, of anything that binds like an `mx.sym.Symbol`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.compare.numbers import Array, Arrays, RunNumbers
from tofu.mxnet.compare.values import draw_like


@dataclass(frozen=True)
class Run:
    """Results of training and of inference, each with the bytes that kernels read from other workers."""

    training: RunNumbers
    inference: RunNumbers
    training_bytes: int
    inference_bytes: int


def run_step(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    values: Arrays,
    requests: Mapping[str, str],
    context: Any = None,
    seed: int = 1,
    *,
    trains: bool = True,
    adds_apart: bool = False,
) -> Run:
    """Bind the symbol, run it for inference, then run a training step on the same values.

    `requests` maps arguments to MXNet's "write", "add" or "null". Head gradients, and the first values of gradients
    with "add", are drawn from `seed`. With `adds_apart` this function adds, since not all of MXNet's kernels can.
    """
    context = context or mx.cpu(0)
    bound = {name: "write" if adds_apart and request == "add" else request for name, request in requests.items()}
    executor = _bind(symbol, shapes, values, bound, context)
    inference, inference_bytes = _count(lambda: executor.forward(is_train=False))
    outputs = _whole(symbol.list_outputs(), inference)
    if not trains:
        return Run(RunNumbers({}), RunNumbers(outputs), 0, inference_bytes)
    differentiated = [name for name, request in requests.items() if request != "null"]

    addends = draw_like({name: values[name] for name in differentiated}, seed + 1)
    for name, addend in addends.items():
        executor.grad_dict[name][:] = addend

    def step() -> Any:
        made = executor.forward(is_train=True)
        if differentiated:
            heads = draw_like(_whole(symbol.list_outputs(), made), seed)
            executor.backward([mx.nd.array(head, ctx=context, dtype=head.dtype) for head in heads.values()])
        return made

    made, training_bytes = _count(step)
    gradients = {name: executor.grad_dict[name].asnumpy() for name in differentiated}
    for name in (name for name in differentiated if requests[name] != bound[name]):
        gradients[name] = gradients[name] + addends[name]
    training = RunNumbers(
        _whole(symbol.list_outputs(), made),
        gradients,
        {name: state.asnumpy() for name, state in executor.aux_dict.items()},
    )
    return Run(training, RunNumbers(outputs), training_bytes, inference_bytes)


def _bind(
    symbol: Any, shapes: Mapping[str, tuple[int, ...]], values: Arrays, requests: Mapping[str, str], context: Any
) -> Any:
    arguments = symbol.list_arguments()
    executor = symbol.simple_bind(
        context,
        grad_req=dict(requests),
        type_dict={name: values[name].dtype for name in arguments},
        **shapes,
    )
    for name, value in values.items():
        (executor.arg_dict if name in executor.arg_dict else executor.aux_dict)[name][:] = value
    mx.nd.waitall()
    return executor


def _count(run: Any) -> tuple[Any, int]:
    mx.nd.waitall()
    _mxnet.reset_counters()
    result = run()
    mx.nd.waitall()
    return result, int(_mxnet.counters()["bytes_read_remote"])


def _whole(names: list[str], arrays: Any) -> dict[str, Array]:
    return {name: array.asnumpy() for name, array in zip(names, arrays, strict=True)}
