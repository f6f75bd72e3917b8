"""Data and parameters are distinguished in the same way with the shapes of all arguments or of the data alone."""

import mxnet as mx
import pytest

import tofu
from tofu.mxnet.frontend import data_arguments
from tofu.mxnet.frontend.data_arguments import find_data
from tofu.mxnet.frontend.read_symbol import find_labels

V = mx.sym.Variable


def make_convolution():
    net = mx.sym.BatchNorm(mx.sym.Convolution(V("data"), num_filter=8, kernel=(3, 3), name="conv"), name="norm")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), V("own"), V("also"), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (16, 3, 8, 8)}


def make_lookup():
    net = mx.sym.LayerNorm(mx.sym.Embedding(V("data"), input_dim=50, output_dim=8, name="table"), name="norm")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax"), {"data": (16, 5)}


def list_shapes(symbol, shapes):
    return dict(zip(symbol.list_arguments(), symbol.infer_shape(**shapes)[0], strict=True))


@pytest.mark.parametrize("algorithm", ["data-parallel", "exact"])
@pytest.mark.parametrize("make", [make_convolution, make_lookup])
def test_all_shapes_give_the_same_plan_as_data_shapes(make, algorithm):
    symbol, shapes = make()
    partitioned = tofu.partition(symbol, ngpus=4, algorithm=algorithm, cache=False)
    some = partitioned.simple_bind(mx.cpu(), **shapes).plan
    every = partitioned.simple_bind(mx.cpu(), **list_shapes(symbol, shapes)).plan
    assert (every.tensors, every.operators, every.inputs) == (some.tensors, some.operators, some.inputs)
    assert every.worker_bytes == some.worker_bytes
    assert every.communication_bytes == some.communication_bytes


def test_bound_arrays_are_distinguished():
    symbol, shapes = make_lookup()
    arrays = {name: mx.nd.ones(shape) for name, shape in list_shapes(symbol, shapes).items()}
    gradients = {name: mx.nd.zeros(array.shape) for name, array in arrays.items() if name.startswith(("fc", "table"))}
    plan = tofu.partition(symbol, ngpus=4, algorithm="data-parallel").bind(mx.cpu(), arrays, args_grad=gradients).plan
    assert set(plan.inputs) == {"data", "softmax_label"}
    assert {plan.tensors[name] for name in gradients} == {(None, None)}


@pytest.mark.parametrize(
    ("symbol", "shapes", "data"),
    [
        (mx.sym.FullyConnected(V("a") * V("b"), num_hidden=8, name="fc"), {"a": (16, 6)}, {"a", "b"}),
        (
            mx.sym.broadcast_mul(mx.sym.FullyConnected(V("a"), num_hidden=1, name="fc"), V("sample_weight")),
            {"a": (16, 6), "sample_weight": (16, 1)},
            {"a", "sample_weight"},
        ),
        (
            mx.sym.Reshape(mx.sym.FullyConnected(V("a"), num_hidden=8, name="fc"), shape=(16, 4, 2)),
            {"a": (16, 6)},
            {"a"},
        ),
    ],
    ids=["two inputs", "weights of samples", "a batch in an attribute"],
)
def test_arguments_that_grow_with_the_batch_are_data(symbol, shapes, data):
    assert find_data(symbol, list_shapes(symbol, shapes), find_labels(symbol)) == data


def test_shapes_are_inferred_few_times(monkeypatch):
    net, made = V("data"), []
    for n in range(40):
        net = mx.sym.dot(net, V(f"w{n}"))
    symbol = mx.sym.FullyConnected(net, num_hidden=4, name="fc")
    shapes = list_shapes(symbol, {"data": (16, 6), **{f"w{n}": (6, 6) for n in range(40)}})
    infer = data_arguments._infer_shapes
    monkeypatch.setattr(data_arguments, "_infer_shapes", lambda *given: made.append(given) or infer(*given))
    found = find_data(symbol, shapes, ())
    assert {"data", *(f"w{n}" for n in range(40))} <= found
    assert "fc_bias" not in found
    assert len(made) <= 35


def test_arguments_with_shapes_are_data_if_some_have_none():
    symbol, shapes = make_convolution()
    given = {**shapes, "norm_gamma": (8,)}
    assert find_data(symbol, given, find_labels(symbol)) == {"data", "norm_gamma", "softmax_label"}
    partitioned = tofu.partition(symbol, ngpus=2, algorithm="data-parallel")
    assert partitioned.simple_bind(mx.cpu(), **given).plan.tensors["norm_gamma"] == (None,)


def test_a_model_of_declared_parameters_has_no_data():
    symbol = V("table_weight", shape=(6, 4)) + V("other_weight", shape=(6, 4))
    assert find_data(symbol, list_shapes(symbol, {}), set()) == set()
