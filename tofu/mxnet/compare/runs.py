"""Run a training step and a forward pass for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.compare.numbers import Array, Arrays, RunNumbers
from tofu.mxnet.compare.values import draw_like


@dataclass(frozen=True)
class Run:
    """Results of a model in a training step and in inference.

    `training_bytes` and `inference_bytes` count the bytes that workers read from each other.
    """

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
    *,
    trains: bool = True,
    adds_apart: bool = False,
    output_names: Sequence[str] | None = None,
) -> Run:
    """Run a model for inference, then run a training step on the same values.

    `requests` has "write", "add" or "null" for each argument, as in MXNet. With "add", gradients are added to random
    numbers: by MXNet, or by this function if `adds_apart` is True. Outputs get random gradients. If `output_names` is
    passed, the results have these names.
    """
    context = context or mx.cpu(0)
    bound_requests = {n: "write" if adds_apart and request == "add" else request for n, request in requests.items()}
    executor = _bind_with_values(symbol, shapes, values, bound_requests, context)
    output_names = output_names or symbol.list_outputs()
    inference_outputs, inference_bytes = _count_bytes(lambda: executor.forward(is_train=False))
    inference = RunNumbers(_as_numpy(output_names, inference_outputs))
    if not trains:
        return Run(RunNumbers({}), inference, 0, inference_bytes)
    differentiated = [name for name, request in requests.items() if request != "null"]

    addends = draw_like({name: values[name] for name in differentiated}, 2)
    for name, addend in addends.items():
        executor.grad_dict[name][:] = addend

    def train() -> Any:
        outputs = executor.forward(is_train=True)
        if differentiated:
            head_gradients = draw_like(_as_numpy(output_names, outputs), 1).values()
            executor.backward([mx.nd.array(array, ctx=context, dtype=array.dtype) for array in head_gradients])
        return outputs

    training_outputs, training_bytes = _count_bytes(train)
    gradients = {name: executor.grad_dict[name].asnumpy() for name in differentiated}
    for name in (name for name in differentiated if requests[name] != bound_requests[name]):
        gradients[name] = gradients[name] + addends[name]
    states = {name: state.asnumpy() for name, state in executor.aux_dict.items()}
    training = RunNumbers(_as_numpy(output_names, training_outputs), gradients, states)
    return Run(training, inference, training_bytes, inference_bytes)


def _bind_with_values(
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


def _count_bytes(run: Any) -> tuple[Any, int]:
    mx.nd.waitall()
    _mxnet.reset_counters()
    result = run()
    mx.nd.waitall()
    return result, int(_mxnet.counters()["bytes_read_remote"])


def _as_numpy(names: Sequence[str], arrays: Any) -> dict[str, Array]:
    return {name: array.asnumpy() for name, array in zip(names, arrays, strict=True)}
