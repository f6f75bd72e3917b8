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


@pytest.mark.parametrize(
    ("build", "dtype"), [(mx.sym.softmax, "int32"), (mx.sym.log_softmax, "uint8"), (mx.sym.SoftmaxOutput, "bool")]
)
def test_integers_without_a_kernel_are_refused(build, dtype):
    net = build(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc"))
    with pytest.raises(
        tofu.UnsupportedError, match=rf"would compute in {dtype}, .* for float16, float32, float64 alone"
    ):
        tofu.partition(net, 2).simple_bind(mx.cpu(), type_dict={"data": dtype}, data=(4, 6))


@pytest.mark.parametrize(
    "use",
    [
        lambda net: tofu.partition(net, 2, data=(4, 5)),
        lambda net: tofu.partition(net, 2).simple_bind(mx.cpu(), data=(4, 5)),
        lambda net: tofu.partition(net, 2).verify(data=(4, 5)),
        lambda net: tofu.memory_report(net, 2, data=(4, 5)),
    ],
)
def test_errors_of_types_name_the_types(use):
    def build(**stated):
        scores = mx.sym.FullyConnected(mx.sym.Variable("data", **stated), num_hidden=6, name="fc")
        return mx.sym.elemwise_add(scores, mx.sym.zeros(shape=(4, 6), dtype="float64"), name="sum")

    message = r"types do not \(data: float32\)\. .*dtype=.*type_dict=.*block\.cast\('float64'\)\. MXNet says: Error in operator sum"
    with pytest.raises(tofu.ShapeError, match=message):
        use(build())
    use(build(dtype="float64"))


def test_errors_of_shapes_name_the_shapes():
    net = mx.sym.elemwise_add(mx.sym.Variable("a"), mx.sym.Variable("b", dtype="float64"), name="sum")
    with pytest.raises(tofu.ShapeError, match=r"^The shapes given \(a: \(4, 5\), b: \(4, 6\)\) do not fit the model\."):
        tofu.partition(net, 2, a=(4, 5), b=(4, 6))
