"""Each output and each gradient requested alone equals one device, in memory full of NaN."""

from itertools import groupby

import mxnet as mx
import numpy as np
import pytest

import tofu
from tdl_ops.mxnet.case import Case
from tests.shared.training import fill_free_memory
from tofu import _mxnet
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.kernels import compose

OPERATORS = [case for case in load_cases() if not case.op.startswith(("_backward", "_tofu"))]
FEW_OF_EACH = [case for _, alike in groupby(OPERATORS, lambda case: case.op) for case in [*alike][:2]]

# MXNet's gradient of the slope is wrong if the gradient of the data overwrites its input.
WRONG_IN_MXNET = {"prelu"}
COMPARISONS = {f"_npi_{name}" for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")}


def recurrent_cases():
    """Stacked and bidirectional layers, whose gradients MXNet passes from layer to layer."""
    gates = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
    for mode, count in gates.items():
        for directions in (1, 2):
            attributes = {"mode": mode, "state_size": 3, "num_layers": 2, "bidirectional": directions == 2}
            size = sum(directions * count * 3 * (width + 3 + 2) for width in (4, 3 * directions))
            states = [(2 * directions, 4, 3)] * (2 if mode == "lstm" else 1)
            yield Case("RNN", attributes, [(5, 4, 4), (size,), *states])


def compose_case(case):
    return compose(case.op, {name: str(value) for name, value in case.attributes.items()}, len(case.inputs))


DIFFERENTIATED = [
    case
    for case in (*FEW_OF_EACH, *recurrent_cases())
    if case.op not in COMPARISONS
    and case.wrt != ()  # it has gradients
    and not case.relations  # two devices draw other numbers than one
    and len(case.numbers) > 1
    and case.attributes.get("act_type") not in WRONG_IN_MXNET
]
SEVERAL_OUTPUTS = [
    case
    for case in OPERATORS
    if "update" not in case.op
    and not _mxnet.operator_info(case.op)["is_random"]
    and len(compose_case(case).list_outputs()) > 1
]


def bind(symbol, values, requests):
    values = {name: values[name] for name in symbol.list_inputs()}
    names = symbol.list_arguments()
    types, shapes = ({name: getattr(values[name], of) for name in names} for of in ("dtype", "shape"))
    fill_free_memory()
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, type_dict=types, **shapes)
    for name, array in (executor.arg_dict | executor.aux_dict).items():
        array[:] = values[name]
    return executor


def run_gradients(symbol, values, asked):
    executor = bind(symbol, values, {name: "write" if name in asked else "null" for name in symbol.list_arguments()})
    executor.forward(is_train=True)
    executor.backward()
    return {name: executor.grad_dict[name].asnumpy() for name in asked}


@pytest.mark.parametrize("case", DIFFERENTIATED, ids=str)
def test_each_gradient_alone(case):
    values = {f"input{n}": value for n, value in enumerate(case.draw_inputs("float32"))}
    symbol = mx.sym.Group([mx.sym.MakeLoss(mx.sym.sin(head)) for head in compose_case(case)])
    arguments = symbol.list_arguments()
    asked = arguments if case.wrt is None else [f"input{n}" for n in case.wrt]
    expected = run_gradients(symbol, values, asked)
    partitioned = tofu.partition(symbol, 2, **{name: values[name].shape for name in arguments})
    for name in asked:
        found = run_gradients(partitioned, values, [name])[name]
        assert np.abs(found - expected[name]).max() <= 1e-4 * max(np.abs(expected[name]).max(), 1e-2)


def run_forward(symbol, values, is_train):
    return [output.asnumpy() for output in bind(symbol, values, "null").forward(is_train=is_train)]


@pytest.mark.parametrize("case", SEVERAL_OUTPUTS, ids=str)
def test_each_output_alone(case):
    values = {f"input{n}": value for n, value in enumerate(case.draw_inputs())} | {"other": np.ones(4)}
    whole, other = compose_case(case), mx.sym.sin(mx.sym.Variable("other"))  # always splittable
    for is_train in (False, True):
        expected = run_forward(whole, values, is_train)
        for n, value in enumerate(expected):
            found, _ = run_forward(tofu.partition(mx.sym.Group([whole[n], other]), 2), values, is_train)
            np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("hints", [{}, {"bn": "c"}, {"bn": "b"}], ids=str)
@pytest.mark.parametrize("output", [1, 2])
def test_statistics_of_a_flat_batch_norm_alone(output, hints):
    """MXNet's kernel refuses to leave out the first output if data is a matrix."""
    names = ("data", "gamma", "beta")
    net = mx.sym.BatchNorm(*map(mx.sym.Variable, names), output_mean_var=True, axis=-1, fix_gamma=False, name="bn")
    rng = np.random.RandomState(0)
    values = {name: rng.uniform(0.5, 1.5, (12, 8) if name == "data" else 8) for name in names}
    values |= {name: rng.uniform(0.5, 1.5, 8) for name in net.list_auxiliary_states()}
    for is_train in (False, True):
        expected = run_forward(net, values, is_train)[output]
        (found,) = run_forward(tofu.partition(net[output], 4, hints=hints), values, is_train)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
