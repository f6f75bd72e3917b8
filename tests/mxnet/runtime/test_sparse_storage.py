import logging

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.frontend.sparse_gradients import list_sparse_gradients
from tofu.mxnet.frontend.storage import list_storages, with_dense_storage

FEATURES, FACTORS, BATCH = 60, 4, 16

LAZY = [
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "lazy_update": False}),
    ("nag", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}),
    ("lbsgd", {"learning_rate": 0.1, "momentum": 0.0, "wd": 0.1, "batch_scale": 20}),  # never updates
    ("lbsgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1, "batch_scale": 3}),
]


def machine():
    data = mx.sym.Variable("data", stype="csr")
    factors = mx.sym.Variable("factors", shape=(FEATURES, FACTORS), stype="row_sparse", init=mx.init.Normal(0.1))
    weight = mx.sym.Variable("weight", shape=(FEATURES, 1), stype="row_sparse", init=mx.init.Normal(0.1))
    linear = mx.sym.broadcast_add(mx.sym.dot(data, weight), mx.sym.Variable("bias", shape=(1,)))
    squares = mx.sym._internal._square_sum(data=factors, axis=1, keepdims=True, name="squares")
    itself = mx.sym.dot(mx.sym.square(data), squares)
    mixed = 0.5 * mx.sym.square(mx.sym.dot(data, factors))
    both = mx.sym.sum(mx.sym.Concat(linear, mixed, dim=1), axis=1, keepdims=True)
    return mx.sym.LinearRegressionOutput(both - 0.5 * itself, mx.sym.Variable("label"), name="out")


def lookup(sparse_grad=True):
    table = mx.sym.Embedding(
        mx.sym.Variable("data"), input_dim=FEATURES, output_dim=6, sparse_grad=sparse_grad, name="table"
    )
    return mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(table, num_hidden=1, name="dense"), mx.sym.Variable("label"), name="out"
    )


def batches(kind, count=4):
    random = np.random.RandomState(5)
    if kind is machine:
        # With a single feature per sample, gradients of the factors are rounding errors, which Adam magnifies.
        ranks = random.rand(count * BATCH, FEATURES).argsort(axis=1)
        cells = (ranks < 4) * random.uniform(0.5, 1, ranks.shape)
        data = [mx.nd.array(cells[n * BATCH :][:BATCH]).tostype("csr") for n in range(count)]
    else:
        data = [mx.nd.array(random.randint(0, 25, (BATCH, 3))) for _ in range(count)]
    return [mx.io.DataBatch([array], [mx.nd.array(random.rand(BATCH, 1))]) for array in data]


def train(symbol, kind, module, optimizer, parameters):
    own = module(symbol, data_names=["data"], label_names=["label"])
    first, *_ = steps = batches(kind)
    own.bind([("data", first.data[0].shape)], [("label", first.label[0].shape)])
    mx.random.seed(11)
    own.init_params(mx.init.Normal(0.1))
    own.init_optimizer(optimizer=optimizer, optimizer_params=parameters)
    for _ in range(3):
        for batch in steps:
            own.forward(batch, is_train=True)
            own.backward()
            own.update()
    return own.get_params()[0]


@pytest.mark.parametrize(
    ("kind", "workers", "module"), [(machine, 2, mx.mod.Module), (lookup, 3, tofu.mod.Module)], ids=["csr", "rows"]
)
@pytest.mark.parametrize(
    ("optimizer", "parameters"),
    [
        *LAZY,
        ("adam", {"wd": 0.01}),
        ("adagrad", {}),
        ("ftrl", {"wd": 0.01}),
        ("rmsprop", {"wd": 0.01}),
        ("nag", {"learning_rate": 0.1, "wd": 0.1}),
        ("lbsgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1, "batch_scale": 1}),
    ],
)
def test_training_equals_one_device(kind, workers, module, optimizer, parameters):
    alone = train(kind(), kind, mx.mod.Module, optimizer, parameters)
    found = train(tofu.partition(kind(), ngpus=workers), kind, module, optimizer, parameters)
    assert {name: value.stype for name, value in found.items()} == {n: v.stype for n, v in alone.items()}
    for name, value in alone.items():
        np.testing.assert_allclose(found[name].asnumpy(), value.asnumpy(), rtol=2e-5, atol=1e-6, err_msg=name)


def test_sparse_gradients_of_gluon_hold_the_rows_that_are_read():
    net = mx.gluon.nn.Embedding(10, 4, sparse_grad=True)
    net.initialize()
    dense = mx.gluon.nn.Dense(2)
    tofu.gluon.partition(net, ngpus=2)
    with mx.autograd.record():
        total = net(mx.nd.array([7, 2, 2, 5])).sum()
    total.backward()
    gradient = net.weight.grad()
    assert gradient.indices.asnumpy().tolist() == [2, 5, 7]
    np.testing.assert_array_equal(gradient.data.asnumpy(), [[2] * 4, [1] * 4, [1] * 4])
    dense.initialize()
    tofu.gluon.partition(dense, ngpus=2)
    dense(mx.nd.ones((4, 3)))
    with pytest.raises(AttributeError, match="no attribute 'indices'"):
        _ = dense.weight.grad().indices


def bound(symbol, grad_req):
    data, label = batches(machine)[0].data[0], batches(machine)[0].label[0]
    executor = symbol.simple_bind(mx.cpu(), grad_req=grad_req, data=data.shape, label=label.shape)
    random = np.random.RandomState(2)
    for name in ("factors", "weight"):
        executor.arg_dict[name][:] = mx.nd.array(random.rand(*executor.arg_dict[name].shape)).tostype("row_sparse")
    data.copyto(executor.arg_dict["data"])
    label.copyto(executor.arg_dict["label"])
    return executor


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_executors_return_mxnets_storage_types(grad_req):
    requests = {"factors": grad_req, "weight": grad_req, "bias": grad_req, "data": "null", "label": "null"}
    alone, found = (
        bound(machine(), {**requests, "factors": "write", "weight": "write"}),
        bound(tofu.partition(machine(), ngpus=2), requests),
    )
    for name in ("arg_dict", "grad_dict"):
        expected, storage = (
            {n: None if array is None else array.stype for n, array in getattr(executor, name).items()}
            for executor in (alone, found)
        )
        assert storage == expected
    times = 2 if grad_req == "add" else 1  # MXNet adds up no sparse gradients
    for executor in (alone, *[found] * times):
        executor.forward(is_train=True)
        executor.backward()
    np.testing.assert_allclose(found.outputs[0].asnumpy(), alone.outputs[0].asnumpy(), rtol=1e-5)
    for name in ("factors", "weight"):
        expected = alone.grad_dict[name].asnumpy() * times
        np.testing.assert_allclose(found.grad_dict[name].asnumpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda x, w: mx.sym.dot(x, w),
        lambda x, w: mx.sym.dot(mx.sym.square(x), w),
        lambda x, w: mx.sym.dot(2 * x, w),
        lambda x, w: mx.sym.dot(x, 2 * w),
        lambda x, w: mx.sym.dot(x, w) + mx.sym.dot(mx.sym.square(x), w),
        lambda x, w: mx.sym.broadcast_mul(mx.sym.dot(x, w), mx.sym.sum(w)),
        lambda x, w: mx.sym.dot(mx.sym.cast_storage(x, "default"), w),
        lambda x, w: mx.sym.Embedding(mx.sym.Variable("rows"), 2 * w, input_dim=6, output_dim=2, sparse_grad=True),
        lambda x, w: mx.sym.dot(x, w, transpose_a=True),
    ],
)
@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_gradients_are_sparse_as_in_mxnet(make, stype):
    symbol = make(mx.sym.Variable("data", stype="csr"), mx.sym.Variable("weight", shape=(6, 2), stype=stype))
    shapes = {"data": (6, 6), "rows": (6,)}
    shapes = {name: shapes[name] for name in symbol.list_arguments() if name in shapes}
    executor = symbol.simple_bind(mx.cpu(), grad_req={"weight": "write", **dict.fromkeys(shapes, "null")}, **shapes)
    is_sparse = executor.grad_dict["weight"].stype == "row_sparse"
    assert ("weight" in list_sparse_gradients(symbol)) == is_sparse


def test_dense_forms_keep_names():
    shared, rows = mx.sym.Variable("b", stype="row_sparse"), mx.sym.Variable("rows")
    table = mx.sym.Variable("table", stype="row_sparse")
    looked_up = mx.sym.contrib.SparseEmbedding(rows, table, input_dim=5, output_dim=3)
    squares = mx.sym._internal._square_sum(shared, axis=1, name="squares")
    symbol = mx.sym.Group([mx.sym.cast_storage(mx.sym.Variable("a"), stype="row_sparse") * 2, looked_up, squares])
    dense = with_dense_storage(symbol)
    assert (dense.list_arguments(), dense.list_outputs()) == (symbol.list_arguments(), symbol.list_outputs())
    assert not list_storages(dense)
    assert list_storages(symbol) == {"table": "row_sparse", "b": "row_sparse"}
    assert list_sparse_gradients(symbol) == {"table", "b"}
    assert list_sparse_gradients(squares + mx.sym.sum(shared, axis=1)) == set()
    plain = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    assert with_dense_storage(plain) is plain


def test_sparse_storage_is_logged_once(caplog):
    with caplog.at_level(logging.WARNING, "tofu"):
        tofu.partition(machine(), ngpus=2)
    (record,) = caplog.records
    assert "sparse storage, factors (row_sparse), weight (row_sparse), data (csr)" in record.message
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tofu"):
        tofu.partition(lookup(sparse_grad=False), ngpus=2)
    assert not caplog.records
