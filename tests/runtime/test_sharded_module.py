"""tofu.mod.Module beside mx.mod.Module: fit, score, predict, optimizers, another batch size."""

import mxnet as mx
import numpy as np
import pytest
from models import mlp, residual_cnn

import tofu


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


def test_input_gradients():
    model = mlp()
    rng = np.random.RandomState(0)
    values, labels = rng.uniform(-1, 1, (12, 17)), rng.randint(0, 10, 12)
    batch = mx.io.DataBatch([mx.nd.array(values)], [mx.nd.array(labels)])
    gradients = []
    for module in (mx.mod.Module(model.symbol), tofu.mod.Module(model.symbol, ngpus=4)):
        module.bind([("data", (12, 17))], [("softmax_label", (12,))], inputs_need_grad=True)
        module.init_params(mx.init.One())
        module.forward_backward(batch)
        gradients.append(module.get_input_grads()[0].asnumpy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4, atol=1e-7)


def test_mistakes_are_named():
    model = mlp()
    with pytest.raises(tofu.TofuError, match=r"not among the model's arguments[\s\S]*dta"):
        tofu.mod.Module(model.symbol, data_names=["dta"], ngpus=2)
    module = tofu.mod.Module(model.symbol, ngpus=2)
    with pytest.raises(tofu.TofuError, match="not bound"):
        module.forward(mx.io.DataBatch([mx.nd.ones((12, 17))], [mx.nd.ones(12)]))
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    module.init_params()
    with pytest.raises(tofu.ShapeError, match=r"data: bound with \(12, 17\), the batch has \(12, 16\)"):
        module.forward(mx.io.DataBatch([mx.nd.ones((12, 16))], [mx.nd.ones(12)]))
    with pytest.raises(tofu.TofuError, match="init_optimizer"):
        module.update()
