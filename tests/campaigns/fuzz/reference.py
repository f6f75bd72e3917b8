"""Results of one device, without the errors that MXNet makes when it computes in place."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import ProcessError

import mxnet as mx
import numpy as np

from tests.campaigns.fuzz.sample import DOUBLE, FIXED, FuzzSample
from tofu import _mxnet
from tofu.mxnet.frontend.read_symbol import find_labels, wrap_symbol
from tofu.mxnet.runtime.executor.bound_graph import setting_variable

Results = dict[str, np.ndarray]
"""Outputs, gradients and states by name ("output 0, step 1", "gradient of w, step 1"; "output 0, scored" is inference)."""
STEPS = 2
SEED = 7  # random numbers restart here, so that runs can be repeated


def find_differentiated(sample: FuzzSample) -> list[str]:
    labels = find_labels(sample.symbol)
    return [name for name, request in sample.requests.items() if request != "null" and name not in labels]


def bind(sample: FuzzSample, symbol: mx.sym.Symbol, requests: Mapping[str, str]):
    types = {name: value.dtype for name, value in sample.values.items()}
    dense = dict.fromkeys(sample.values, "default")  # MXNet does not infer it for all updates of weights
    return symbol.simple_bind(mx.cpu(), grad_req=dict(requests), type_dict=types, stype_dict=dense, **sample.shapes)


def run(
    sample: FuzzSample, executor, steps: int = STEPS, is_scored: bool = True, held: float = 1
) -> tuple[Results, list[int]]:
    """Run training steps and inference. Return the results, and the bytes read from other workers in each step.

    Arrays of gradients contain `held` before each step.
    """
    results: Results = {}
    moved = []
    gradients = {name: gradient for name, gradient in executor.grad_dict.items() if gradient is not None}
    count = len(sample.head_gradients)
    mx.random.seed(SEED)
    for name, state in executor.aux_dict.items():
        state[:] = sample.values[name]
    for step in range(steps):
        _feed(sample, executor, step)
        for gradient in gradients.values():
            gradient[:] = held
        mx.nd.waitall()
        _mxnet.reset_counters()
        executor.forward(is_train=True)
        kept = executor.outputs[count:]
        executor.backward([*(mx.nd.array(head, dtype=head.dtype) for head in sample.head_gradients), *kept])
        mx.nd.waitall()
        moved.append(_mxnet.counters()["bytes_read_remote"])
        results |= {f"output {n}, step {step}": output.asnumpy() for n, output in enumerate(executor.outputs[:count])}
        results |= {f"gradient of {name}, step {step}": gradient.asnumpy() for name, gradient in gradients.items()}
        results |= {f"{name}, step {step}": state.asnumpy() for name, state in executor.aux_dict.items()}
    return (results | score(sample, executor) if is_scored else results), moved


def run_alone(sample: FuzzSample) -> Results:
    """Return the results of one device that keeps every tensor and writes all gradients.

    Otherwise, some kernels of MXNet are wrong. Gradients that no kernel writes are zeros. Inference uses the states
    after training.
    """
    symbol, variables = sample.symbol, {*sample.symbol.list_arguments(), *sample.symbol.list_auxiliary_states()}
    kept = [mx.sym.BlockGrad(tensor) for tensor in symbol.get_internals() if tensor.name not in variables]
    whole = mx.sym.Group([symbol, *kept])
    executor = bind(sample, whole, dict.fromkeys(sample.requests, "write"))
    results, _ = run(sample, executor, is_scored=False)
    names = [name for name in results if name.startswith("gradient") and (results[name] == 1).all()]
    if names:
        others, _ = run(sample, executor, is_scored=False, held=2)
        results |= {name: np.zeros_like(results[name]) for name in names if (others[name] == 2).all()}
    states = sample.symbol.list_auxiliary_states()
    if states and "null" in sample.requests.values():  # some states change in the backward pass
        asked = {name: "null" if request == "null" else "write" for name, request in sample.requests.items()}
        others, _ = run(sample, bind(sample, whole, asked), is_scored=False)
        results |= {name: value for name, value in others.items() if name.rsplit(",", 1)[0] in states}
    for name, request in sample.requests.items():
        for step in range(STEPS):
            gradient = results.pop(f"gradient of {name}, step {step}")
            if request != "null":
                results[f"gradient of {name}, step {step}"] = gradient + (request == "add")
    scoring = bind(sample, whole, dict.fromkeys(sample.requests, "null"))
    for name, state in scoring.aux_dict.items():
        state[:] = results[f"{name}, step {STEPS - 1}"]
    return results | score(sample, scoring)


def score(sample: FuzzSample, executor) -> Results:
    """Return the outputs of inference, with the inputs of the last step and the executor's states."""
    _feed(sample, executor, STEPS - 1)
    outputs = executor.forward(is_train=False)[: len(sample.head_gradients)]
    return {f"output {n}, scored": output.asnumpy() for n, output in enumerate(outputs)}


def run_apart(sample: FuzzSample) -> Results:
    """Run `compute_apart` in a separate process. Raise ProcessError if MXNet ends it."""
    sent = replace(sample, relations={})  # functions cannot be sent
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(compute_apart, sent).result()
        except BrokenProcessPool as error:
            raise ProcessError("MXNet ended the process") from error


def compute_apart(sample: FuzzSample) -> Results:
    """Return the results of the first step on one device that computes nothing in place.

    Head gradients become factors of the outputs.
    """
    wanted = find_differentiated(sample)
    heads = [
        mx.sym.MakeLoss(mx.sym.Cast(output, dtype=DOUBLE) * mx.sym.Variable(_head_name(n)))
        for n, output in enumerate(sample.symbol)
    ]
    losses = mx.sym.Group(heads)
    training = wrap_symbol(_mxnet.training_graph(losses.handle.value, wanted)) if wanted else sample.symbol
    gradients = [training[n] for n in range(len(heads), len(training.list_outputs()))] if wanted else []
    whole = mx.sym.Group([sample.symbol, *gradients, *_list_read(training)])
    values = {**sample.values, **{_head_name(n): head.astype(DOUBLE) for n, head in enumerate(sample.head_gradients)}}
    arguments, states = (
        {name: mx.nd.array(values[name], dtype=values[name].dtype) for name in names}
        for names in (whole.list_arguments(), whole.list_auxiliary_states())
    )
    # Without gradients, MXNet would fuse operators for inference.
    with setting_variable("MXNET_SUBGRAPH_BACKEND", "NONE"):
        bound = whole.bind(mx.cpu(), arguments, aux_states=states, grad_req="null")
    outputs = [output.asnumpy() for output in bound.forward(is_train=True)]
    results = {f"output {n}, step 0": output for n, output in enumerate(outputs[: len(heads)])}
    for name, gradient in zip(wanted, outputs[len(heads) :], strict=False):
        results[f"gradient of {name}, step 0"] = gradient + (sample.requests[name] == "add")
    return results | {f"{name}, step 0": state.asnumpy() for name, state in states.items()}


def _feed(sample: FuzzSample, executor, step: int) -> None:
    """Set all arguments, because some kernels of MXNet change arguments that they only read."""
    for name, array in executor.arg_dict.items():
        array[:] = value_of(sample, name, step)


def value_of(sample: FuzzSample, name: str, step: int) -> np.ndarray:
    is_halved = name in sample.requests and not name.startswith(FIXED)
    return sample.values[name] * 0.5**step if is_halved else sample.values[name]


def _head_name(output: int) -> str:
    return f"_factor_of_output_{output}"


def _list_read(training: mx.sym.Symbol) -> list[mx.sym.Symbol]:
    """Return the tensors of a training graph, except unread ones of the backward pass, which some kernels do not compute."""
    inner = training.get_internals()
    nodes = _mxnet.nodes(inner.handle.value)
    read = {(source, output) for node in nodes for source, output in node["inputs"]}
    entries = enumerate(_mxnet.outputs(inner.handle.value))
    return [
        inner[n]
        for n, (node, output) in entries
        if nodes[node]["op"] != "null" and ((node, output) in read or not nodes[node]["is_backward"])
    ]
