from collections import namedtuple

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import mlp
from tests.shared.module_runs import (
    BATCH,
    FEATURES,
    ModuleCase,
    assert_all_close,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    start,
)

SGD = ModuleCase("sgd", {"learning_rate": 0.1, "wd": 0.01, "momentum": 0.9})
ROUTES = {
    "one": lambda net, **options: mx.mod.Module(net, **options),
    "module": lambda net, **options: tofu.mod.Module(net, ngpus=3, **options),
    "partition": lambda net, **options: mx.mod.Module(tofu.partition(net, 3), **options),
}


def described(*shapes):
    return [mx.io.DataDesc(name, shape, "float64") for name, shape in shapes]


def bind_mlp(**options):
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))], **options)
    module.init_params(mx.init.Xavier())
    return module


def test_labels_may_be_listed_per_device():
    module, metrics = bind_mlp(), [mx.metric.create("acc") for _ in range(2)]
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
def test_arrays_of_a_batch_follow_the_order_of_the_bound_shapes(order):
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
    assert_all_close(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["mapping", "list"])
def test_a_request_by_name_trains_a_fixed_parameter_as_in_mxnet(kind):
    requests = {"fc0_weight": "write", "fc1_bias": "null"}
    if kind == "list":
        requests = [requests.get(name, "write") for name in model().list_arguments()]
    found = []
    for route in ("one", "module"):
        module = start(
            ROUTES[route](model(), fixed_param_names=["fc0_weight"]), ModuleCase("sgd", {"learning_rate": 0.5})
        )
        before = parameters_of(module)
        module.bind(module.data_shapes, module.label_shapes, grad_req=requests, force_rebind=True)
        module.forward_backward(batches(1)[0])
        module.update()
        found.append(parameters_of(module))
    assert np.abs(found[0]["fc0_weight"] - before["fc0_weight"]).max() > 1e-3
    assert largest_error(found[1], found[0]) < 1e-11


@pytest.mark.parametrize("route", ["module", "partition"])
def test_fixed_parameters_stay_and_have_no_gradient(route):
    module = start(ROUTES[route](model(), fixed_param_names=["fc0_weight"]), SGD)
    before = parameters_of(module)
    module.forward_backward(batches(1)[0])
    module.update()
    after = parameters_of(module)
    assert (after["fc0_weight"] == before["fc0_weight"]).all()
    assert (after["fc1_weight"] != before["fc1_weight"]).any()
    executor = module._exec_group.execs[0]
    assert executor.grad_dict["fc0_weight"] is None
    graph = (module.executor if route == "module" else executor.sharded).partition.graph
    assert "fc0_weight" not in [graph.tensors[position].name for position in graph.gradients]


def test_ignored_parameters_are_not_checked():
    module = tofu.mod.Module(mlp().symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    others = {"no_parameter": mx.nd.ones(2)}
    module.init_params()
    module.set_params(others, {}, allow_missing=True, force_init=False)


def test_one_head_gradient_needs_no_list():
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


def test_added_gradients_of_a_smaller_batch_continue_the_sum():
    net = mx.sym.square(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, no_bias=True, name="fc"))
    rng, found = np.random.RandomState(0), []
    draws = [(rng.rand(samples, 9), rng.rand(samples, 6)) for samples in (8, 8, 4, 3, 3)]
    for module_class, options in ((mx.mod.Module, {}), (tofu.mod.Module, {"ngpus": 2})):
        module, gradients = module_class(net, label_names=None, **options), []
        module.bind([("data", (8, 9))], inputs_need_grad=True, grad_req="add")
        module.init_params(mx.init.One())
        for data, head in draws:
            if len(data) == 4:
                module.reshape([("data", (4, 9))])  # a batch of another size binds the module itself
            module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=True)
            module.backward([mx.nd.array(head)])
            arrays = module.get_input_grads()[0], module._exec_group.execs[0].grad_dict["fc_weight"]
            gradients += [array.asnumpy() for array in arrays]
        found.append(gradients)
    assert_all_close(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_input_gradients_keep_the_context_of_their_group(caplog):
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


def test_errors_of_calls_out_of_order_are_of_mxnets_classes():
    with pytest.raises(AssertionError, match=r"not bound: call bind\("):
        tofu.mod.Module(mlp().symbol, ngpus=2).forward(None)
    with pytest.raises(AssertionError, match="init_optimizer"):
        bind_mlp().update()
    with pytest.raises(RuntimeError, match="missing"):
        bind_mlp().set_params({}, {})
    executor = tofu.partition(model(), 2).simple_bind(mx.cpu(), data=(BATCH, FEATURES))
    with pytest.raises(TypeError, match="no argument dta"):
        executor.forward(dta=mx.nd.ones((BATCH, FEATURES)))


def test_another_batch_size_keeps_the_shards():
    module = bind_mlp()
    before = {name: module.executor.variables[name].arrays for name in module.symbol.list_arguments()[1:-1]}
    module.reshape([("data", (24, 17))], [("softmax_label", (24,))])
    for name, arrays in before.items():
        kept = zip(module.executor.variables[name].arrays, arrays, strict=True)
        assert all(now is then for now, then in kept), name


def test_batches_without_labels_and_of_other_sizes():
    batch = namedtuple("Batch", ["data"])
    net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="fc")
    outputs = []
    for route in ROUTES:
        module = ROUTES[route](net, label_names=None)
        module.bind(described(("data", (6, 3, 8, 8))), for_training=False)
        mx.random.seed(3)
        module.init_params(mx.init.Xavier())
        found = []
        for shape in ((6, 3, 8, 8), (6, 3, 11, 9), (3, 3, 11, 9)):
            module.forward(batch([mx.nd.array(np.random.RandomState(0).rand(*shape), dtype="float64")]))
            found.append(module.get_outputs()[0].asnumpy())
        outputs.append(found)
    for found in outputs[1:]:
        assert_all_close(found, outputs[0], rtol=1e-11)


def test_optimizer_and_updater_are_mxnets():
    module = tofu.mod.Module(model(), ngpus=2)
    assert module._optimizer is module._updater is None
    start(module, SGD)
    assert isinstance(module._optimizer, mx.optimizer.SGD)
    module._optimizer.lr = 0.25
    assert module.optimizer.learning_rate == 0.25
    module.forward_backward(batches(1)[0])
    module.update()
    assert set(module._updater.states) == set(range(len(module._param_names)))
    assert module._exec_group.param_names == module._param_names


def test_shared_parameters_move_between_different_plans():
    whole = tofu.mod.Module(tofu.partition(model(), 2, hints={"fc0_weight": 0}))
    other = tofu.mod.Module(tofu.partition(model(), 2, hints={"fc0_weight": 1}))
    bind(whole)
    whole.init_params(mx.init.Xavier())
    other.bind(whole.data_shapes, whole.label_shapes, shared_module=whole)
    assert not other.executor.variables["fc0_weight"].matches(whole.executor.variables["fc0_weight"])
    assert largest_error(parameters_of(other), parameters_of(whole)) == 0
    other.set_params({**other.get_params()[0], "fc0_weight": mx.nd.ones((18, FEATURES))}, {})
    assert (whole.get_params()[0]["fc0_weight"].asnumpy() == 1).all()


def test_the_optimizer_of_another_model_cannot_be_borrowed():
    lender, borrower = (start(tofu.mod.Module(net, ngpus=2), SGD) for net in (model(bias=False), model()))
    with pytest.raises(tofu.TofuError, match=r"does not have these parameters:\n  - fc0_bias"):
        borrower.borrow_optimizer(lender)
