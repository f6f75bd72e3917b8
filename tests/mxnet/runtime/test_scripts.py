"""What scripts do with `mx.mod.Module` beyond fit, over `tofu.mod.Module` and over partitioned symbols: the numbers of one device."""

from collections import namedtuple

import mxnet as mx
import numpy as np
import pytest
from mxnet.contrib.svrg_optimization.svrg_module import SVRGModule

import tofu
from tests.shared.module_runs import (
    BATCH,
    FEATURES,
    Case,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    start,
)

SGD = Case("sgd", {"learning_rate": 0.1, "wd": 0.01, "momentum": 0.9})
ROUTES = {
    "one": lambda net, **options: mx.mod.Module(net, **options),
    "module": lambda net, **options: tofu.mod.Module(net, ngpus=3, **options),
    "partition": lambda net, **options: mx.mod.Module(tofu.partition(net, 3), **options),
}
PARTITIONED = [name for name in ROUTES if name != "one"]


def described(*shapes):
    return [mx.io.DataDesc(name, shape, "float64") for name, shape in shapes]


# ---- gradients


def accumulate(route, grad_req):
    """Two steps whose gradients add up, an update, zeros, and one step more."""
    module = ROUTES[route](model())
    module.bind(*bound_shapes(), grad_req=grad_req, inputs_need_grad=True)
    mx.random.seed(3)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    seen = []
    for number, batch in enumerate(batches(3)):
        module.forward_backward(batch)
        seen.append(
            {name: None if g is None else g.asnumpy() for name, g in module._exec_group.execs[0].grad_dict.items()}
        )
        if number:
            module.update()
            for gradients in module._exec_group.grad_arrays:
                if gradients[0] is not None:
                    gradients[0][:] = 0
    return [*seen, parameters_of(module)]


def bound_shapes():
    return described(("data", (BATCH, FEATURES))), described(("softmax_label", (BATCH,)))


@pytest.mark.parametrize("route", PARTITIONED)
@pytest.mark.parametrize(
    "grad_req", ["add", {"fc0_weight": "add", "fc0_bias": "null", "data": "null"}], ids=["add", "by name"]
)
def test_gradients_add_up(route, grad_req):
    for one, other in zip(accumulate("one", grad_req), accumulate(route, grad_req), strict=True):
        asked = {name: value for name, value in one.items() if value is not None and name != "softmax_label"}
        assert largest_error({name: other[name] for name in asked}, asked) < 1e-11


def test_added_gradients_outlast_another_batch_size():
    results = []
    for route in ROUTES:
        module = ROUTES[route](model())
        module.bind(*bound_shapes(), grad_req="add")
        mx.random.seed(3)
        module.init_params(mx.init.Xavier())
        first, second = batches(2)
        module.forward_backward(first)
        module.forward_backward(mx.io.DataBatch([second.data[0][:6]], [second.label[0][:6]]))
        gradients = module._exec_group.execs[0].grad_dict
        results.append({name: gradients[name].asnumpy() for name in ("fc0_weight", "out_bias")})
    assert max(largest_error(found, results[0]) for found in results[1:]) < 1e-11


@pytest.mark.parametrize("route", PARTITIONED)
def test_a_backward_may_follow_a_forward_that_is_no_training(route):
    """As in MXNet, where the numbers do not depend on it; between the two may be a score."""
    results = []
    for name in ("one", route):
        module = start(ROUTES[name](model()), SGD)
        first, second = batches(2)
        module.forward(first, is_train=True)
        module.forward(second, is_train=False)
        module.backward()
        module.update()
        results.append(parameters_of(module))
    assert largest_error(results[1], results[0]) < 1e-11


def test_a_label_that_is_set_after_the_forward_is_that_of_the_backward():
    executors = []
    for symbol in (model(), tofu.partition(model(), 3)):
        executor = symbol.simple_bind(mx.cpu(), data=(BATCH, FEATURES), type_dict={"data": "float64"})
        for name, array in executor.arg_dict.items():
            array[:] = np.random.RandomState(len(name)).uniform(-1, 1, array.shape) if name != "softmax_label" else 1
        executor.forward()
        executor.arg_dict["softmax_label"][:] = 2
        executor.backward()
        executors.append(
            {name: array.asnumpy() for name, array in executor.grad_dict.items() if name != "softmax_label"}
        )
    assert largest_error(executors[1], executors[0]) < 1e-11


@pytest.mark.parametrize(
    ("apply", "named"),
    [
        (lambda net: mx.sym.Dropout(net, p=0.5, name="drop"), "Dropout drop"),
        (lambda net: mx.sym.BatchNorm(net, name="bn"), "BatchNorm bn"),
    ],
)
def test_a_backward_in_another_mode_than_its_forward_is_refused(apply, named):
    net = mx.sym.FullyConnected(apply(mx.sym.Variable("data")), num_hidden=4, name="fc")
    executor = tofu.partition(net, 2).simple_bind(mx.cpu(), data=(8, 6))
    executor.forward(is_train=False)
    with pytest.raises(tofu.TofuError, match=rf"Call forward\(is_train=True\)[\s\S]*- {named}$"):
        executor.backward(mx.nd.ones((8, 4)))
    executor.forward(is_train=True)
    with pytest.raises(tofu.TofuError, match=rf"backward\(is_train=False\) is not possible[\s\S]*- {named}$"):
        executor.backward(mx.nd.ones((8, 4)), is_train=False)
    executor.backward(mx.nd.ones((8, 4)))
    if "BatchNorm" in named:
        executor.forward(is_train=False)
        with pytest.raises(tofu.TofuError, match=rf"backward\(is_train=False\) is not possible[\s\S]*- {named}$"):
            executor.backward(mx.nd.ones((8, 4)), is_train=False)
    else:
        with pytest.raises(tofu.TofuError, match=rf"called twice[\s\S]*- {named}$"):
            executor.backward(mx.nd.ones((8, 4)))


@pytest.mark.parametrize("request_of", ["write", "add"])
def test_a_backward_of_inference_passes_dropout_by(request_of):
    net = mx.sym.FullyConnected(mx.sym.Dropout(mx.sym.Variable("data"), p=0.5), num_hidden=4, name="fc")
    net = mx.sym.Activation(net, act_type="tanh")
    found = []
    for symbol in (net, tofu.partition(net, 2)):
        executor = symbol.simple_bind(mx.cpu(), grad_req=request_of, data=(8, 6), type_dict={"data": "float64"})
        for name, array in executor.arg_dict.items():
            array[:] = np.random.RandomState(len(name)).uniform(-1, 1, array.shape)
        executor.forward(is_train=True)
        executor.backward(mx.nd.zeros((8, 4), dtype="float64"))
        executor.forward(is_train=False)
        executor.backward(mx.nd.ones((8, 4), dtype="float64"), is_train=False)
        found.append({name: array.asnumpy() for name, array in executor.grad_dict.items()})
        assert all(array.any() for array in found[-1].values())
    assert largest_error(found[1], found[0]) < 1e-12


def test_a_backward_of_inference_is_refused_where_nothing_was_kept_for_it():
    """MXNet's fused RNN operator keeps nothing for its gradient unless it trains; what a step before has left would be taken for it."""
    net = mx.sym.Dropout(mx.sym.Variable("data"), p=0.5)
    net = mx.sym.RNN(
        net, mx.sym.Variable("w"), mx.sym.Variable("h"), mode="rnn_tanh", state_size=4, num_layers=1, name="rnn"
    )
    executor = tofu.partition(net, 2).simple_bind(mx.cpu(), data=(3, 8, 5))
    executor.forward(is_train=False)
    with pytest.raises(tofu.TofuError, match=r"save nothing for a gradient in inference[\s\S]*- RNN rnn$"):
        executor.backward(mx.nd.ones((3, 8, 4)), is_train=False)


def test_a_backward_of_inference_finds_the_largest_cells():
    """In training without dropout, on one device and on two in inference; one device in inference, which is wrong."""
    data, found = mx.sym.Variable("data"), []
    for net, workers, is_train in ((data, 1, True), (mx.sym.Dropout(data), 2, False), (mx.sym.Dropout(data), 1, False)):
        symbol = mx.sym.Pooling(net, kernel=(3, 3), stride=(2, 2), pool_type="max")
        executor = tofu.partition(symbol, workers).simple_bind(mx.cpu(), data=(4, 2, 9, 9))
        executor.arg_dict["data"][:] = np.random.RandomState(1).uniform(size=(4, 2, 9, 9))
        executor.forward(is_train=is_train)
        executor.backward(mx.nd.ones((4, 2, 4, 4)), is_train=is_train)
        found.append(executor.grad_dict["data"].asnumpy())
    np.testing.assert_array_equal(found[1], found[0])
    assert (found[2] != found[0]).any()


def test_a_backward_of_inference_has_the_mask_of_its_forward():
    net = mx.sym.Dropout(mx.sym.Variable("data"), p=0.5, mode="always")
    executor = tofu.partition(net, 2).simple_bind(mx.cpu(), data=(40, 6))
    executor.arg_dict["data"][:] = 1
    masks = []
    for is_train in (False, True, False):
        executor.forward(is_train=is_train)
        executor.backward(mx.nd.ones((40, 6)), is_train=is_train)
        masks.append(executor.outputs[0].asnumpy())
        assert set(np.unique(masks[-1])) == {0, 2}
        np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), masks[-1])
    assert (masks[0] != masks[2]).any()


# ---- batches


def test_batches_without_labels_and_of_other_sizes():
    """`namedtuple("Batch", ["data"])` is in every tutorial; images of other sizes need no bind."""
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
        for one, other in zip(outputs[0], found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-11)


def test_what_is_no_batch_is_named():
    module = start(tofu.mod.Module(model(), ngpus=2), SGD)
    with pytest.raises(tofu.TofuError, match=r"a list of arrays in its `data`, not a NDArray"):
        module.forward(mx.nd.ones((BATCH, FEATURES)))
    with pytest.raises(tofu.ShapeError, match="2 arrays for the 1 inputs data"):
        module.forward(mx.io.DataBatch([mx.nd.ones((BATCH, FEATURES))] * 2, []))


# ---- states


def test_states_are_carried_from_batch_to_batch():
    cell = mx.rnn.LSTMCell(6, prefix="lstm_")
    begin = cell.begin_state(func=mx.sym.Variable)
    outputs, states = cell.unroll(2, mx.sym.Variable("data"), begin_state=begin, merge_outputs=True)
    net, names = mx.sym.Group([outputs, *states]), [state.name for state in begin]
    results = []
    for route in ROUTES:
        module = ROUTES[route](net, label_names=None, state_names=names)
        module.bind(described(("data", (6, 2, 3))), for_training=False)
        mx.random.seed(3)
        module.init_params(mx.init.Xavier())
        module.set_states(value=0.5)
        for _ in range(2):
            module.forward(mx.io.DataBatch([mx.nd.ones((6, 2, 3), dtype="float64")], []))
            module.set_states(states=module.get_outputs(merge_multi_context=False)[1:])
        states = module.get_states(merge_multi_context=False)
        results.append([state.asnumpy() for [state] in [*states, [module.get_outputs()[0]]]])
        assert not set(names) & set(module.get_params()[0])
    for found in results[1:]:
        for one, other in zip(results[0], found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-11)


@pytest.mark.parametrize("given", [{}, {"states": [], "value": 1}, {"states": [mx.nd.ones((6, 4))]}])
def test_states_that_are_wrong_are_named(given):
    module = start(tofu.mod.Module(model(), ngpus=2), SGD)
    with pytest.raises(tofu.TofuError, match=r"set_states takes either|set_states got 1 arrays for the 0 states"):
        module.set_states(**given)


# ---- optimizers and shared modules


def test_the_optimizer_and_the_updater_are_mxnets():
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


def test_a_module_shares_the_parameters_and_the_optimizer_of_another():
    """Trained in turn, at two batch sizes and so with two plans, as MXNet's do."""
    results = []
    for route in ("one", "module"):
        long = start(ROUTES[route](model()), SGD)
        short = ROUTES[route](model())
        short.bind(described(("data", (6, FEATURES))), described(("softmax_label", (6,))), shared_module=long)
        assert short.params_initialized
        assert short.optimizer_initialized
        for number, step in enumerate(batches(4)):
            if number % 2:
                step = mx.io.DataBatch([step.data[0][:6]], [step.label[0][:6]])
            module = short if number % 2 else long
            module.forward_backward(step)
            module.update()
        results += [parameters_of(bound) for bound in (long, short)] if route == "module" else [parameters_of(long)]
        assert short._optimizer is long._optimizer
    assert max(largest_error(found, results[0]) for found in results[1:]) < 1e-11


def test_parameters_move_between_plans_that_lay_them_out_in_other_ways():
    whole = tofu.mod.Module(tofu.partition(model(), 2, hints={"fc0_weight": 0}))
    other = tofu.mod.Module(tofu.partition(model(), 2, hints={"fc0_weight": 1}))
    bind(whole)
    whole.init_params(mx.init.Xavier())
    other.bind(whole.data_shapes, whole.label_shapes, shared_module=whole)
    assert not other.executor.variables["fc0_weight"].matches(whole.executor.variables["fc0_weight"])
    assert largest_error(parameters_of(other), parameters_of(whole)) == 0
    other.set_params({**other.get_params()[0], "fc0_weight": mx.nd.ones((18, FEATURES))}, {})
    assert (whole.get_params()[0]["fc0_weight"].asnumpy() == 1).all()


def test_gradients_of_inputs_are_not_those_of_a_shared_module():
    for route, is_shared in (("one", True), ("module", False)):
        first, second = ROUTES[route](model()), ROUTES[route](model())
        first.bind(described(("data", (6, FEATURES))), described(("softmax_label", (6,))), inputs_need_grad=True)
        first.init_params(mx.init.Xavier())
        first.forward_backward(mx.io.DataBatch([batches(1)[0].data[0][:6]], [batches(1)[0].label[0][:6]]))
        shapes = first.data_shapes, first.label_shapes
        second.bind(*shapes, inputs_need_grad=True, shared_module=first)
        assert first.get_input_grads()[0].asnumpy().any()
        assert second.get_input_grads()[0].asnumpy().any() == is_shared


def test_an_optimizer_of_another_model_is_not_lent():
    lender, borrower = (start(tofu.mod.Module(net, ngpus=2), SGD) for net in (model(bias=False), model()))
    with pytest.raises(tofu.TofuError, match=r"does not have these parameters:\n  - fc0_bias"):
        borrower.borrow_optimizer(lender)
    with pytest.raises(tofu.NotReadyError, match="no optimizer"):
        borrower.borrow_optimizer(tofu.mod.Module(model(), ngpus=2))


def test_svrg_over_a_partitioned_symbol():
    data, label = np.random.RandomState(0).rand(24, 3), np.random.RandomState(1).rand(24)
    results = []
    for apply in (lambda net: net, lambda net: tofu.partition(net, 3)):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
        net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("lin_label"), name="lin")
        module = SVRGModule(apply(net), label_names=["lin_label"], update_freq=2)
        mx.random.seed(3)
        iterator = mx.io.NDArrayIter(data, label, 12, label_name="lin_label")
        module.fit(iterator, eval_metric="mse", num_epoch=3, optimizer_params={"learning_rate": 0.1})
        results.append(parameters_of(module))
    assert largest_error(results[1], results[0]) < 1e-6  # the iterator's numbers are of single precision


# ---- errors


def test_errors_are_of_the_kinds_that_mxnet_raises():
    module = tofu.mod.Module(model(), ngpus=2)
    with pytest.raises(AssertionError, match="not bound"):
        module.forward(batches(1)[0])
    with pytest.raises(TypeError, match=r"data_shapes takes a list of names with shapes;[\s\S]* is none. Write"):
        module.bind([("data", mx.nd.array([10, 10]))])
    bind(module)
    with pytest.raises(AssertionError, match="no parameters yet"):
        module.forward(batches(1)[0])
    with pytest.raises(RuntimeError, match="missing"):
        module.set_params({}, {})
    with pytest.raises(AssertionError, match="no optimizer"):
        module.update()
    executor = tofu.partition(model(), 2).simple_bind(mx.cpu(), data=(BATCH, FEATURES))
    with pytest.raises(TypeError, match="no argument dta"):
        executor.forward(dta=mx.nd.ones((BATCH, FEATURES)))
