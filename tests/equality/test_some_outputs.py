"""Each output of an operator asked for alone, on workers: what one device computes when all of them are asked for.

Kernels of MXNet compute outputs of others that nobody asked for, moments the variance of the mean. Memory is full of NaN before, so that
what is not written shows.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.training import fill_free_memory
from tofu import _mxnet
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.kernels import compose


def compose_case(case):
    return compose(case.op, {name: str(value) for name, value in case.attributes.items()}, len(case.inputs))


CASES = [
    case
    for case in load_cases()
    if not case.op.startswith(("_backward", "_tofu")) and "update" not in case.op
    if not _mxnet.operator_info(case.op)["is_random"] and len(compose_case(case).list_outputs()) > 1
]


def run_forward(symbol, values, is_train):
    given = {name: values[name] for name in symbol.list_arguments()}
    types, shapes = ({name: getattr(value, of) for name, value in given.items()} for of in ("dtype", "shape"))
    fill_free_memory()
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", type_dict=types, **shapes)
    for name, array in (executor.arg_dict | executor.aux_dict).items():
        array[:] = values[name]
    return [output.asnumpy() for output in executor.forward(is_train=is_train)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_output_alone(case):
    values = {f"input{n}": value for n, value in enumerate(case.draw_inputs())} | {"other": np.ones(4)}
    whole, other = compose_case(case), mx.sym.sin(mx.sym.Variable("other"))  # something to split in any case
    for is_train in (False, True):
        expected = run_forward(whole, values, is_train)
        for n, value in enumerate(expected):
            found, _ = run_forward(tofu.partition(mx.sym.Group([whole[n], other]), 2), values, is_train)
            np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("hints", [{}, {"bn": "c"}, {"bn": "b"}], ids=str)
@pytest.mark.parametrize("output", [1, 2])
def test_statistics_of_a_flat_batch_norm_alone(output, hints):
    """MXNet's own kernel refuses to leave the first output out where data is a matrix; a worker asks it for that one too."""
    names = ("data", "gamma", "beta")
    net = mx.sym.BatchNorm(*map(mx.sym.Variable, names), output_mean_var=True, axis=-1, fix_gamma=False, name="bn")
    rng = np.random.RandomState(0)
    values = {name: rng.uniform(0.5, 1.5, (12, 8) if name == "data" else 8) for name in names}
    values |= {name: rng.uniform(0.5, 1.5, 8) for name in net.list_auxiliary_states()}
    for is_train in (False, True):
        expected = run_forward(net, values, is_train)[output]
        (found,) = run_forward(tofu.partition(net[output], 4, hints=hints), values, is_train)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
