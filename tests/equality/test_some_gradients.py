"""Each gradient of an operator asked for alone, on workers: what one device computes when all of them are asked for.

Kernels of MXNet leave outputs unwritten, or hand numbers on in outputs that nobody asked for. Memory is full of NaN before, so that what
is not written shows.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest

import tofu
from tdl_ops.mxnet.case import Case
from tests.shared.training import fill_free_memory
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.kernels import compose

# MXNet's gradient of the slope is wrong where that of the data is computed in its place.
WRONG_IN_MXNET = {"prelu"}
# Booleans, which have no gradients.
COMPARISONS = {f"_npi_{name}" for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")}


def recurrent_cases():
    """Stacked layers in both directions: MXNet hands gradients from one to the next."""
    gates = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
    for mode, count in gates.items():
        for directions in (1, 2):
            attributes = {"mode": mode, "state_size": 3, "num_layers": 2, "bidirectional": directions == 2}
            size = sum(directions * count * 3 * (width + 3 + 2) for width in (4, 3 * directions))
            states = [(2 * directions, 4, 3)] * (2 if mode == "lstm" else 1)
            yield Case("RNN", attributes, [(5, 4, 4), (size,), *states])


CASES = [
    case
    for case in (*load_cases(), *recurrent_cases())
    if not case.op.startswith(("_backward", "_tofu"))
    and case.op not in COMPARISONS
    and case.wrt != ()  # it has gradients
    and not case.relations  # two devices draw other numbers than one
    and len(case.numbers) > 1
    and case.attributes.get("act_type") not in WRONG_IN_MXNET
]


def run_gradients(symbol, values, asked):
    requests = {name: "write" if name in asked else "null" for name in symbol.list_arguments()}
    fill_free_memory()
    types = {name: values[name].dtype for name in requests}
    shapes = {name: value.shape for name, value in values.items()}
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, type_dict=types, **shapes)
    for name, value in values.items():
        (executor.arg_dict if name in requests else executor.aux_dict)[name][:] = value
    executor.forward(is_train=True)
    executor.backward()
    return {name: executor.grad_dict[name].asnumpy() for name in asked}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_gradient_alone(case):
    values = {f"input{n}": value for n, value in enumerate(case.draw_inputs("float32"))}
    heads = compose(case.op, {name: str(value) for name, value in case.attributes.items()}, len(values))
    symbol = mx.sym.Group([mx.sym.MakeLoss(mx.sym.sin(head)) for head in heads])
    arguments = symbol.list_arguments()
    asked = arguments if case.wrt is None else [f"input{n}" for n in case.wrt]
    expected = run_gradients(symbol, values, asked)
    partitioned = tofu.partition(symbol, 2, **{name: values[name].shape for name in arguments})
    for name in asked:
        found = run_gradients(partitioned, values, [name])[name]
        assert np.abs(found - expected[name]).max() <= 1e-4 * max(np.abs(expected[name]).max(), 1e-2)
