from itertools import product

import mxnet as mx
import numpy as np
import pytest

import tofu


def types_of(arrays):
    return {name: np.dtype(array.dtype).name for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("data", "weight", "stated"),
    [
        (data, weight, stated)
        for data, weight, stated in product((None, "float64", "float16"), (None, "float64"), (None, "float64"))
        if stated or (data, weight) in ((None, None), ("float64", "float64"))  # what MXNet binds
    ],
)
def test_types_equal_one_device(data, weight, stated):
    net = mx.sym.FullyConnected(
        mx.sym.Variable("data", dtype=data), mx.sym.Variable("weight", dtype=weight), no_bias=True, num_hidden=4
    )
    asked = {"type_dict": stated and {"data": stated}, "data": (4, 6)}
    single = net.simple_bind(mx.cpu(), **asked)
    partitioned = tofu.partition(net, 2)
    assert types_of(partitioned.simple_bind(mx.cpu(), **asked).arg_dict) == types_of(single.arg_dict)
    variables = tofu.bind(partitioned, **asked).variables
    assert types_of({name: variables[name].arrays[0] for name in single.arg_dict}) == types_of(single.arg_dict)
