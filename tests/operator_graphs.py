"""Graphs made of random layers and of all described operators, over each other's results; any outputs, any gradients.

An operator comes at a signature that it is verified with. What it reads are tensors of the graph, brought to the shape and the range
that the signature asks for; indices, lengths and matrices of a certain kind are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil, prod

import mxnet as mx
import numpy as np
from models import Model
from random_models import LAYERS, Growth, head
from training import random_values

from tofu import _mxnet
from tofu.verify.case import Case, Numbers
from tofu.verify.cases import load_cases
from tofu.verify.defects import find_defect
from tofu.verify.kernels import compose

Shape = tuple[int, ...]
Results = dict[str, np.ndarray]
STEPS = 2
DOUBLE = "float64"
EXACT = {DOUBLE, "int32", "int64", "bool"}
REQUESTS = ("write", "write", "write", "write", "add", "null")
LABEL = "label"  # on one device, the gradient by an input of this name is whatever its array held
IN_PLACE = "prelu"  # on one device, its gradients are wrong where one is computed in the place of another tensor


@dataclass(frozen=True)
class RandomGraph:
    """A symbol, the shapes of its inputs, values of its arguments and states, what is asked of the gradients of those that have one
    ("write", "add" or "null"), and a gradient of each output.
    """

    symbol: mx.sym.Symbol
    shapes: Mapping[str, Shape]
    values: Mapping[str, np.ndarray]
    requests: Mapping[str, str]
    head_gradients: tuple[np.ndarray, ...]


@cache
def cases_by_operator() -> dict[str, list[Case]]:
    """Operator -> its cases that can stand in any graph: nothing drawn, no weights updated, nothing in single precision."""
    cases: dict[str, list[Case]] = {}
    for case in load_cases():
        is_drawn = _mxnet.operator_info(case.op)["is_random"] or "random" in case.op
        is_inner = case.op.startswith(("_backward", "_tofu"))
        is_wrong = find_defect(case) or case.attributes.get("act_type") == IN_PLACE
        if not (is_drawn or is_inner or is_wrong or "update" in case.op) and is_exact(case):
            cases.setdefault(case.op, []).append(case)
    return cases


def is_exact(case: Case) -> bool:
    """Whether all inputs and outputs are in double precision or integers."""
    types = {f"input{n}": given.dtype for n, given in enumerate(case.numbers)}
    _, outputs, _ = compose_case(case).infer_type(**types)
    return EXACT.issuperset({*types.values(), *(np.dtype(output).name for output in outputs)})


def compose_case(case: Case) -> mx.sym.Symbol:
    return compose(case.op, {name: str(value) for name, value in case.attributes.items()}, len(case.inputs))


def bring(grow: Growth, shape: Shape, low: float, high: float) -> mx.sym.Symbol:
    """A tensor of the graph as numbers between low and high in another shape, with something added so that few of them are equal."""
    x, given = grow.latest()
    if given != shape or grow.rng.random() < 0.5:
        x = mx.sym.tile(mx.sym.Reshape(x, shape=(-1,)), reps=(ceil(prod(shape) / prod(given)),))
        x = mx.sym.Reshape(mx.sym.slice_axis(x, axis=0, begin=0, end=prod(shape)), shape=shape)
        x = x + grow.parameter(*shape)
    return mx.sym.softsign(x) * ((high - low) / 2) + (high + low) / 2


def add_case(grow: Growth, case: Case) -> None:
    """One operator at a signature, over tensors of the graph."""
    plain = compose_case(case)
    states = plain.list_auxiliary_states()
    names = _mxnet.operator_info(case.op)["input_names"]
    inputs = {}
    for n, (numbers, value) in enumerate(zip(case.numbers, case.draw_inputs(seed=grow.count), strict=True)):
        is_free = isinstance(numbers, Numbers) and not numbers.is_whole and numbers.dtype == DOUBLE
        has_gradient = is_free and (case.wrt is None or n in case.wrt) and names[n : n + 1] != [LABEL]
        if is_free and f"input{n}" not in states and grow.rng.random() < 0.8:
            made = bring(grow, numbers.shape, numbers.low, numbers.high)
            inputs[f"input{n}"] = made if has_gradient else mx.sym.BlockGrad(made)
        else:
            name = grow.name("drawn" if has_gradient else "given")
            grow.given[name] = value
            inputs[f"input{n}"] = mx.sym.Variable(name, shape=value.shape, dtype=value.dtype)
    made = mx.sym.load_json(plain.tojson().replace('"operator"', f'"{grow.name(case.op.strip("_"))}"'))(**inputs)
    outputs = [mx.sym.BlockGrad(output) if case.wrt == () else output for output in made]
    grow.add(mx.sym.Group([mx.sym.Cast(output, dtype=DOUBLE) for output in outputs]))


def random_head(grow: Growth, x: mx.sym.Symbol, shape: Shape) -> mx.sym.Symbol:
    """A loss, a tensor as it is, or one whose gradient nobody wants."""
    kind = grow.rng.random()
    return head(grow, x, shape) if kind < 0.4 else mx.sym.BlockGrad(x) if kind < 0.5 else x


def random_graph(seed: int) -> RandomGraph:
    """A graph of 4 to 16 layers and operators, one or two inputs, and one to four outputs; the same for the same seed."""
    grow = Growth(seed)
    cases = cases_by_operator()
    for _ in range(grow.rng.randint(1, 2)):
        shape = tuple(grow.rng.randint(2, 9) for _ in range(grow.rng.choice((1, 2, 3, 4))))
        grow.tensors.append((grow.parameter(*shape), shape))
    for _ in range(grow.rng.randint(4, 16)):
        if grow.rng.random() < 0.5:
            add_case(grow, grow.rng.choice(cases[grow.rng.choice(sorted(cases))]))
        else:
            made = grow.rng.choice(LAYERS)(grow, *grow.latest())
            if made is not None:
                grow.add(made)
    wide = mx.sym.broadcast_mul(bring(grow, (17, 9), -1, 1), grow.data(17, 9))  # something to do for every worker
    heads = [random_head(grow, *tensor) for tensor in grow.rng.choices(grow.tensors, k=grow.rng.randint(0, 3))]
    return finish(grow, mx.sym.Group([wide, *heads]), seed)


def finish(grow: Growth, symbol: mx.sym.Symbol, seed: int) -> RandomGraph:
    """The graph with random values, requests and gradients of its outputs."""
    names = symbol.list_arguments()
    shapes = {name: shape for name, shape in grow.shapes.items() if name in names}
    values = random_values(Model(symbol, shapes, 2), DOUBLE, seed)
    values |= {name: value for name, value in grow.given.items() if name in values}
    requests = {name: grow.rng.choice(REQUESTS) for name in names if not name.startswith(("given", LABEL))}
    _, outputs, _ = symbol.infer_shape(**shapes)
    draw = np.random.RandomState(seed)
    return RandomGraph(symbol, shapes, values, requests, tuple(draw.uniform(-1, 1, shape) for shape in outputs))


def bind(graph: RandomGraph, symbol: mx.sym.Symbol, requests: Mapping[str, str]):
    """An executor of the graph's symbol on one device or, where it is partitioned, on several."""
    types = {name: value.dtype for name, value in graph.values.items()}
    return symbol.simple_bind(mx.cpu(), grad_req=dict(requests), type_dict=types, **graph.shapes)


def run_alone(graph: RandomGraph) -> Results:
    """The results of `run` on one device that computes and keeps every tensor, asks for all gradients, and adds none to anything.

    Kernels of MXNet compute some results wrongly without others, or in the place of others, and do not all add to gradients as they are
    asked to.
    """
    symbol, variables = graph.symbol, {*graph.symbol.list_arguments(), *graph.symbol.list_auxiliary_states()}
    kept = [mx.sym.BlockGrad(tensor) for tensor in symbol.get_internals() if tensor.name not in variables]
    results, _ = run(graph, bind(graph, mx.sym.Group([symbol, *kept]), dict.fromkeys(graph.requests, "write")))
    for name, request in graph.requests.items():
        for step in range(STEPS):
            gradient = results.pop(f"gradient of {name}, step {step}")
            if request != "null":
                results[f"gradient of {name}, step {step}"] = gradient + (request == "add")
    return results


def run(graph: RandomGraph, executor) -> tuple[Results, list[int]]:
    """Outputs, gradients and states of training steps over different numbers, and the outputs without training after them.

    Gradients are added to ones where they are to be added. With them come the bytes that kernels read from other workers in each step.
    """
    results: Results = {}
    moved = []
    gradients = {name: gradient for name, gradient in executor.grad_dict.items() if gradient is not None}
    arrays = executor.arg_dict | executor.aux_dict
    count = len(graph.head_gradients)
    for name, value in graph.values.items():
        arrays[name][:] = value
    for step in range(STEPS):
        for name in graph.requests:
            arrays[name][:] = graph.values[name] * 0.9**step
        for gradient in gradients.values():
            gradient[:] = 1
        mx.nd.waitall()
        _mxnet.reset_counters()
        executor.forward(is_train=True)
        heads = [mx.nd.array(gradient, dtype=DOUBLE) for gradient in graph.head_gradients]
        executor.backward([*heads, *executor.outputs[count:]])
        mx.nd.waitall()
        moved.append(_mxnet.counters()["bytes_read_remote"])
        outputs = executor.outputs[:count]
        results |= {f"output {n}, step {step}": output.asnumpy() for n, output in enumerate(outputs)}
        results |= {f"gradient of {name}, step {step}": gradient.asnumpy() for name, gradient in gradients.items()}
    results |= {name: state.asnumpy() for name, state in executor.aux_dict.items()}
    outputs = executor.forward(is_train=False)[:count]
    return results | {f"output {n}, scored": output.asnumpy() for n, output in enumerate(outputs)}, moved
