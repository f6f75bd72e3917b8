"""tofu.mod.Module beside mx.mod.Module: fit, score, predict, optimizers, another batch size."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import mlp, residual_cnn


def data_for(model, batches=3, extra=0):
    rng = np.random.RandomState(0)
    shape = model.shapes["data"]
    count = shape[0] * batches + extra
    return rng.uniform(-1, 1, (count, *shape[1:])).astype("float32"), rng.randint(0, model.classes, count)


def fit(module, iterator, **options):
    mx.random.seed(3)
    np.random.seed(3)
    module.fit(iterator, num_epoch=3, initializer=mx.init.Xavier(), **options)
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


OPTIMIZERS = [
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}),
    ("sgd", {"learning_rate": 0.1}),
    ("nag", {"learning_rate": 0.05, "momentum": 0.9}),
    ("adam", {"learning_rate": 0.01}),
]


@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_fit_equals_one_device(optimizer, options, workers):
    model = mlp()
    data, labels = data_for(model)
    iterator = mx.io.NDArrayIter(data, labels, model.shapes["data"][0], label_name="softmax_label")
    expected = fit(mx.mod.Module(model.symbol), iterator, optimizer=optimizer, optimizer_params=options)
    iterator.reset()
    module = tofu.mod.Module(model.symbol, ngpus=workers)
    found = fit(module, iterator, optimizer=optimizer, optimizer_params=options)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=2e-4)


def test_score_and_predict_equal_one_device():
    model = residual_cnn()
    data, labels = data_for(model)
    iterator = mx.io.NDArrayIter(data, labels, model.shapes["data"][0], label_name="softmax_label")
    single = mx.mod.Module(model.symbol)
    parameters = fit(single, iterator, optimizer_params={"learning_rate": 0.1})
    module = tofu.mod.Module(tofu.partition(model.symbol, 4))
    module.bind(iterator.provide_data, iterator.provide_label, for_training=False)
    module.init_params(arg_params={name: mx.nd.array(value) for name, value in parameters.items()}, initializer=None)
    assert module.score(iterator, "acc") == single.score(iterator, "acc")
    found, expected = module.predict(iterator).asnumpy(), single.predict(iterator).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_labels_in_a_list_for_each_device_are_those_of_the_one_batch():
    module, metrics = tofu.mod.Module(mlp().symbol, ngpus=2), [mx.metric.create("acc") for _ in range(2)]
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params(mx.init.Xavier())
    module.forward(mx.io.DataBatch([mx.nd.ones((12, 17))], [mx.nd.zeros(12)]), is_train=False)
    labels = [mx.nd.array(np.arange(12) % 3)]
    module.update_metric(metrics[0], labels)
    module.update_metric(metrics[1], [labels], pre_sliced=True)
    assert metrics[0].get() == metrics[1].get()


@pytest.mark.parametrize("storage", ["csr", "row_sparse"])
def test_sparse_batches_are_read_as_dense_ones(storage):
    module, values = tofu.mod.Module(mlp().symbol, ngpus=2), np.eye(12, 17)
    module.bind([mx.io.DataDesc("data", (12, 17), "float64")], [mx.io.DataDesc("softmax_label", (12,), "float64")])
    module.init_params(mx.init.Xavier())
    found = []
    for data in (mx.nd.array(values), mx.nd.array(values).tostype(storage)):
        module.forward(mx.io.DataBatch([data], [mx.nd.zeros(12)]), is_train=True)
        found.append(module.get_outputs()[0].asnumpy())
    assert (found[0] == found[1]).all()


def several_inputs():
    data, other = mx.sym.Variable("a"), mx.sym.Variable("b")
    sums = mx.sym.FullyConnected(data, num_hidden=3, name="f") - 2 * mx.sym.FullyConnected(
        other, num_hidden=3, name="g"
    )
    squares = mx.sym.LinearRegressionOutput(sums, mx.sym.Variable("l"), name="l_loss")
    return mx.sym.Group([squares, mx.sym.MAERegressionOutput(sums * 3, mx.sym.Variable("m"), name="m_loss")])


def provide(names, rows, columns):
    return [(name, (rows, columns)) for name in names]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_arrays_of_a_batch_are_in_the_order_of_the_shapes_that_were_bound(order):
    """Not in that of data_names and label_names; a batch of other shapes may say another order."""
    found = []
    for module_class, options in ((mx.mod.Module, {}), (tofu.mod.Module, {"ngpus": 2})):
        mx.random.seed(3)
        module = module_class(several_inputs(), data_names=["b", "a"], label_names=["m", "l"], **options)
        module.bind(provide(order, 8, 5), provide("lm", 8, 3), inputs_need_grad=True)
        module.init_params(mx.init.Uniform(0.5))
        metric, values = mx.metric.MSE(output_names=["l_loss_output"], label_names=["l"]), []
        for rows, data_order, label_order in ((8, None, None), (4, "ab", "ml"), (4, "ba", "lm"), (8, None, None)):
            rng = np.random.RandomState(rows)
            data, labels = ([mx.nd.array(rng.rand(rows, columns)) for _ in range(2)] for columns in (5, 3))
            provided = {
                "provide_data": data_order and provide(data_order, rows, 5),
                "provide_label": label_order and provide(label_order, rows, 3),
            }
            module.forward(mx.io.DataBatch(data, labels, **provided), is_train=True)
            module.backward()
            module.update_metric(metric, labels)
            values += [array.asnumpy() for array in (*module.get_outputs(), *module.get_input_grads())]
        found.append([*values, np.array(metric.get()[1])])
    for expected, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-6)


def test_a_smaller_batch_keeps_plan_and_parameters():
    model = mlp()
    module = tofu.mod.Module(model.symbol, ngpus=4)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params(mx.init.Xavier())
    before = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
    data = mx.nd.random.uniform(-1, 1, (12, 17))
    module.forward(mx.io.DataBatch([data], [mx.nd.zeros(12)]), is_train=False)
    whole = module.get_outputs()[0].asnumpy()
    operators = dict(module.plan.operators)
    module.forward(mx.io.DataBatch([data[:9]], [mx.nd.zeros(9)]), is_train=False)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), whole[:9], rtol=1e-5)
    assert dict(module.plan.operators) == operators
    for name, value in module.get_params()[0].items():
        assert (value.asnumpy() == before[name]).all()


def test_fixed_parameters_stay():
    model = mlp()
    data, labels = data_for(model)
    iterator = mx.io.NDArrayIter(data, labels, 12, label_name="softmax_label")
    module = tofu.mod.Module(model.symbol, ngpus=2, fixed_param_names=["fc0_weight"])
    module.bind(iterator.provide_data, iterator.provide_label)
    module.init_params(mx.init.Xavier())
    before = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
    module.fit(iterator, num_epoch=1, optimizer_params={"learning_rate": 0.5})
    after = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
    assert (after["fc0_weight"] == before["fc0_weight"]).all()
    assert (after["fc1_weight"] != before["fc1_weight"]).any()


@pytest.mark.parametrize("kind", ["mapping", "list"])
def test_a_request_by_name_trains_a_fixed_parameter_as_in_mxnet(kind):
    model = mlp()
    requests = {"fc0_weight": "write", "fc1_bias": "null"}
    if kind == "list":
        requests = [requests.get(name, "write") for name in model.symbol.list_arguments()]
    rng = np.random.RandomState(0)
    batch = mx.io.DataBatch([mx.nd.array(rng.uniform(-1, 1, (12, 17)))], [mx.nd.array(rng.randint(0, 10, 12))])
    found = []
    for module in (
        mx.mod.Module(model.symbol, fixed_param_names=["fc0_weight"]),
        tofu.mod.Module(model.symbol, ngpus=2, fixed_param_names=["fc0_weight"]),
    ):
        mx.random.seed(3)
        module.bind([("data", (12, 17))], [("softmax_label", (12,))])
        module.init_params(mx.init.Xavier())
        before = {name: value.asnumpy() for name, value in module.get_params()[0].items()}
        module.init_optimizer(optimizer_params={"learning_rate": 0.5})
        module.bind([("data", (12, 17))], [("softmax_label", (12,))], grad_req=requests, force_rebind=True)
        module.forward_backward(batch)
        module.update()
        found.append({name: value.asnumpy() for name, value in module.get_params()[0].items()})
    assert np.abs(found[0]["fc0_weight"] - before["fc0_weight"]).max() > 1e-3
    for name, value in found[0].items():
        assert np.abs(found[1][name] - value).max() < 1e-5


def test_backward_of_a_module_for_inference_is_refused():
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.zeros((12, 17))], [mx.nd.zeros(12)]))
    with pytest.raises(tofu.TofuError, match="bind it with for_training=True"):
        module.backward()


def test_parameters_that_are_passed_over_are_not_checked():
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    others = {"no_parameter": mx.nd.ones(2)}
    with pytest.raises(tofu.TofuError, match="no_parameter"):
        module.set_params(others, {}, allow_missing=True, force_init=False)
    module.init_params()
    module.set_params(others, {}, allow_missing=True, force_init=False)


def test_input_gradients():
    model = mlp()
    rng = np.random.RandomState(0)
    values, labels = rng.uniform(-1, 1, (12, 17)), rng.randint(0, 10, 12)
    batch = mx.io.DataBatch([mx.nd.array(values)], [mx.nd.array(labels)])
    gradients, weights = [], None
    for module in (mx.mod.Module(model.symbol), tofu.mod.Module(model.symbol, ngpus=4)):
        module.bind([("data", (12, 17))], [("softmax_label", (12,))], inputs_need_grad=True)
        module.init_params(mx.init.Xavier(), arg_params=weights)
        weights = module.get_params()[0]
        module.forward_backward(batch)
        gradients.append(module.get_input_grads()[0].asnumpy())
    assert np.abs(gradients[0]).max() > 0.01
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4, atol=1e-7)


def test_one_head_gradient_may_be_given_alone():
    net, gradients = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc"), []
    head = mx.nd.array(np.random.RandomState(0).uniform(-1, 1, (12, 6)))
    for given in ([head], head, head.asnumpy()):
        module = tofu.mod.Module(net, label_names=None, ngpus=2)
        module.bind([("data", (12, 9))], inputs_need_grad=True)
        module.init_params(mx.init.One())
        module.forward(mx.io.DataBatch([mx.nd.ones((12, 9))]), is_train=True)
        module.backward(given)
        gradients.append(module.get_input_grads()[0].asnumpy())
    np.testing.assert_allclose(gradients[0], np.repeat(head.asnumpy().sum(axis=1, keepdims=True), 9, axis=1), rtol=1e-5)
    for gradient in gradients[1:]:
        np.testing.assert_array_equal(gradient, gradients[0])


def test_compressed_gradients_are_refused():
    with pytest.raises(tofu.UnsupportedError, match=r"compression_params=\{'type': '2bit'\}[\s\S]*Leave it out"):
        tofu.mod.Module(mlp().symbol, ngpus=2, compression_params={"type": "2bit"})


def test_gradients_of_inputs_lie_where_their_group_is_placed_by_hand(caplog):
    with mx.AttrScope(ctx_group="left"):
        left = mx.sym.Variable("a") * 2
    module = tofu.mod.Module(
        left + mx.sym.Variable("b"),
        data_names=["a", "b"],
        label_names=None,
        ngpus=2,
        group2ctxs=[{"left": mx.cpu(1)}],
        work_load_list=[1],
    )
    assert "the plan decides which worker computes what" in caplog.text
    module.bind([("a", (4, 3)), ("b", (4, 3))], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 3))] * 2), is_train=True)
    module.backward([mx.nd.ones((4, 3))])
    gradients = module.get_input_grads()
    assert [gradient.context for gradient in gradients] == [mx.cpu(1), mx.cpu(0)]
    assert [gradient.asnumpy().sum() for gradient in gradients] == [24, 12]


def test_mistakes_are_named():
    model = mlp()
    with pytest.raises(tofu.TofuError, match=r"not among the model's arguments[\s\S]*dta"):
        tofu.mod.Module(model.symbol, data_names=["dta"], ngpus=2)
    module = tofu.mod.Module(model.symbol, ngpus=2)
    batch = mx.io.DataBatch([mx.nd.ones((12, 17))], [mx.nd.ones(12)])
    iterator = mx.io.NDArrayIter(np.ones((12, 17)), np.ones(12), 12, label_name="softmax_label")
    runs = [
        lambda: module.forward(batch),
        lambda: module.score(iterator, "acc"),
        lambda: module.predict(iterator),
        lambda: list(module.iter_predict(iterator)),
    ]
    for run in [*runs, lambda: module.reshape([("data", (6, 17))])]:
        with pytest.raises(tofu.TofuError, match=r"not bound: call bind\("):
            run()
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    for run in runs:
        with pytest.raises(tofu.TofuError, match=r"no parameters yet: call init_params\("):
            run()
    module.init_params()
    with pytest.raises(tofu.TofuError, match=r"no outputs yet: call forward\("):
        module.get_outputs()
    with pytest.raises(tofu.ShapeError, match=r"another shape:\n  - fc0_weight: \(18, 17\) becomes \(18, 16\)"):
        module.forward(mx.io.DataBatch([mx.nd.ones((12, 16))], [mx.nd.ones(12)]))
    with pytest.raises(tofu.TofuError, match="init_optimizer"):
        module.update()


def pooled_cnn():
    """A model whose parameters fit to images of any size."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=8, kernel=(3, 3), pad=(1, 1), name="conv")
    net = mx.sym.Pooling(
        mx.sym.BatchNorm(net, fix_gamma=False, name="bn"), global_pool=True, pool_type="avg", kernel=(1, 1)
    )
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=5, name="fc"), name="softmax")


def test_reshape_binds_anew_and_training_goes_on_as_on_one_device():
    rng = np.random.RandomState(0)
    results = []
    shapes = [(8, 3, 10, 10), (6, 3, 12, 14), (8, 3, 10, 10)]
    batches = [
        mx.io.DataBatch([mx.nd.array(rng.rand(*shape))], [mx.nd.array(rng.randint(0, 5, shape[0]))]) for shape in shapes
    ]
    for module in (mx.mod.Module(pooled_cnn()), tofu.mod.Module(pooled_cnn(), ngpus=2)):
        mx.random.seed(3)
        module.bind([("data", shapes[0])], [("softmax_label", (8,))])
        module.init_params(mx.init.Xavier())
        module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
        for shape, batch in zip(shapes, batches, strict=True):
            module.reshape([("data", shape)], [("softmax_label", shape[:1])])
            assert module.data_shapes[0].shape == shape
            module.forward_backward(batch)
            module.update()
        mx.nd.waitall()  # MXNet's engine does not know that a moving average is being changed
        results.append({name: value.asnumpy() for group in module.get_params() for name, value in group.items()})
    for name, expected in results[0].items():
        np.testing.assert_allclose(results[1][name], expected, rtol=1e-4, atol=1e-5)


def test_another_batch_size_keeps_the_shards():
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params()
    before = {name: module.executor.variables[name].arrays for name in module.symbol.list_arguments()[1:-1]}
    module.reshape([("data", (24, 17))], [("softmax_label", (24,))])
    for name, arrays in before.items():
        kept = zip(module.executor.variables[name].arrays, arrays, strict=True)
        assert all(now is then for now, then in kept), name


def test_shapes_that_would_change_the_parameters_are_refused():
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params()
    with pytest.raises(tofu.ShapeError, match=r"another shape:\n  - fc0_weight: \(18, 17\) becomes \(18, 16\)$"):
        module.reshape([("data", (12, 16))], [("softmax_label", (12,))])
    module.forward(mx.io.DataBatch([mx.nd.ones((12, 17))], [mx.nd.ones(12)]))
    assert module.get_outputs()[0].shape == (12, 10)
