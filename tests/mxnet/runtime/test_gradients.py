import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    BATCH,
    FEATURES,
    ModuleCase,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    start,
)
from tests.shared.training import fill_free_memory

SGD = ModuleCase("sgd", {"learning_rate": 0.1, "wd": 0.01, "momentum": 0.9})
ROUTES = {
    "module": lambda: tofu.mod.Module(model(), ngpus=4),
    "partition": lambda: mx.mod.Module(tofu.partition(model(), 4)),
}
ONE_DEVICE = {"one": lambda: mx.mod.Module(model())}


def described(batch):
    shapes = [("data", (batch, FEATURES))], [("softmax_label", (batch,))]
    return [[mx.io.DataDesc(name, shape, "float64") for name, shape in kind] for kind in shapes]


SMALL = mx.io.DataBatch([mx.nd.ones((6, FEATURES))], [mx.nd.zeros(6)])
CALLS = {
    "step": lambda module: module.forward_backward(batches(1)[0]),
    "forward": lambda module: module.forward(batches(1)[0], is_train=True),
    "small forward": lambda module: module.forward(SMALL, is_train=True),
    "score": lambda module: module.forward(batches(1)[0], is_train=False),
    "another score": lambda module: module.forward(batches(2)[1], is_train=False),
    "small score": lambda module: module.forward(SMALL, is_train=False),
    "backward": lambda module: module.backward(),
    "reshape": lambda module: module.reshape(*described(6)),
    "reshape without types": lambda module: module.reshape([("data", (6, FEATURES))], [("softmax_label", (6,))]),
    "update": lambda module: module.update(),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "calls",
    [
        ["update"],
        ["step", "update", "update"],
        ["step", "update", "reshape", "update"],
        ["reshape", "score", "update"],
        ["forward", "update"],
        ["update", "forward", "update"],
        ["small forward", "update", "forward", "update", "forward", "update"],
        ["forward", "another score", "backward", "update"],
        ["reshape without types"],
    ],
    ids=", ".join,
)
def test_calls_in_any_order_equal_mxnets(calls, route):
    results = []
    for module in (mx.mod.Module(model()), ROUTES[route]()):
        fill_free_memory()
        start(module, SGD)
        for call in calls:
            CALLS[call](module)
        results.append(parameters_of(module))
    assert largest_error(results[1], results[0]) < 1e-12
    assert results[1]["fc0_weight"].dtype == results[0]["fc0_weight"].dtype == np.float64


@pytest.mark.parametrize("route", ROUTES)
def test_an_update_without_gradient_requests_changes_nothing(route):
    module = ROUTES[route]()
    module.bind(*described(BATCH), grad_req="null")
    module.init_params(mx.init.Xavier())
    before = parameters_of(module)
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "wd": 0.5})
    module.update()
    assert largest_error(parameters_of(module), before) == 0


def test_gradients_of_a_sharded_executor_begin_at_zero():
    fill_free_memory()
    executor = tofu.bind(model(), [mx.cpu(0), mx.cpu(1)], data=(BATCH, FEATURES))
    executor.forward(is_train=True)
    assert not executor.gradient("fc0_weight").gather().asnumpy().any()
    executor.backward()
    assert executor.gradient("out_bias").gather().asnumpy().any()


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["step", "update", "forward"], r"came after the last backward\(\)"),
        (["step", "update", "small forward"], r"came after the last backward\(\)"),
        (["step", "small score"], "a batch of another size came"),
    ],
)
def test_an_update_after_another_forward_is_refused(calls, message):
    module = start(tofu.mod.Module(model(), ngpus=4), SGD)
    for call in calls:
        CALLS[call](module)
    before = parameters_of(module)
    with pytest.raises(tofu.TofuError, match=message):
        module.update()
    assert largest_error(parameters_of(module), before) == 0
    module.forward_backward(batches(1)[0])
    module.update()
    assert np.isfinite(parameters_of(module)["fc0_weight"]).all()


@pytest.mark.parametrize("route", ROUTES)
def test_a_second_backward_gives_the_same_gradients(route):
    """MXNet's own second backward is wrong: the first one has used the memory."""
    results = []
    for times in (1, 2):
        module = start(ROUTES[route](), SGD)
        module.forward(batches(1)[0], is_train=True)
        for _ in range(times):
            module.backward()
        module.update()
        results.append(parameters_of(module))
    assert largest_error(*results) == 0


def test_a_forced_bind_begins_with_zero_gradients():
    module = start(tofu.mod.Module(model(), ngpus=2), SGD)
    module.forward_backward(batches(1)[0])
    before = parameters_of(module)
    module.bind(*described(BATCH), force_rebind=True)
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1}, force_init=True)
    module.update()
    assert largest_error(parameters_of(bind(module)), before) == 0


def accumulate(route, grad_req):
    module = (ONE_DEVICE | ROUTES)[route]()
    module.bind(*described(BATCH), grad_req=grad_req, inputs_need_grad=True)
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


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "grad_req", ["add", {"fc0_weight": "add", "fc0_bias": "null", "data": "null"}], ids=["add", "by name"]
)
def test_added_gradients_equal_mxnets(route, grad_req):
    for expected, found in zip(accumulate("one", grad_req), accumulate(route, grad_req), strict=True):
        asked = {name: value for name, value in expected.items() if value is not None and name != "softmax_label"}
        assert largest_error({name: found[name] for name in asked}, asked) < 1e-11


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_a_backward_in_inference_ignores_dropout(grad_req):
    net = mx.sym.FullyConnected(mx.sym.Dropout(mx.sym.Variable("data"), p=0.5), num_hidden=4, name="fc")
    net = mx.sym.Activation(net, act_type="tanh")
    found = []
    for symbol in (net, tofu.partition(net, 2)):
        executor = symbol.simple_bind(mx.cpu(), grad_req=grad_req, data=(8, 6), type_dict={"data": "float64"})
        for name, array in executor.arg_dict.items():
            array[:] = np.random.RandomState(len(name)).uniform(-1, 1, array.shape)
        executor.forward(is_train=True)
        executor.backward(mx.nd.zeros((8, 4), dtype="float64"))
        executor.forward(is_train=False)
        executor.backward(mx.nd.ones((8, 4), dtype="float64"), is_train=False)
        found.append({name: array.asnumpy() for name, array in executor.grad_dict.items()})
        assert all(array.any() for array in found[-1].values())
    assert largest_error(found[1], found[0]) < 1e-12


def test_a_backward_in_inference_uses_the_mask_of_its_forward():
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
