"""Gradients before there was a backward, after a reshape and after a forward: those of MXNet, or a clear error."""

import mxnet as mx
import numpy as np
import pytest

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
from tests.shared.training import fill_free_memory

SGD = Case("sgd", {"learning_rate": 0.1, "wd": 0.01, "momentum": 0.9})
ROUTES = {
    "module": lambda: tofu.mod.Module(model(), ngpus=4),
    "partition": lambda: mx.mod.Module(tofu.partition(model(), 4)),
}


def described(batch):
    shapes = [("data", (batch, FEATURES))], [("softmax_label", (batch,))]
    return [[mx.io.DataDesc(name, shape, "float64") for name, shape in kind] for kind in shapes]


def untouched(module):
    module.update()


def after_a_step(module):
    module.forward_backward(batches(1)[0])
    module.update()
    module.update()  # the same gradients once more


def after_a_reshape(module):
    module.forward_backward(batches(1)[0])
    module.update()
    module.reshape(*described(6))
    module.update()


def reshaped_at_first(module):
    module.reshape(*described(6))
    module.forward(mx.io.DataBatch(batches(1)[0].data, batches(1)[0].label), is_train=False)
    module.update()


def after_a_first_forward(module):
    module.forward(batches(1)[0], is_train=True)
    module.update()


def updated_before_a_first_forward(module):
    module.update()
    module.forward(batches(1)[0], is_train=True)
    module.update()


def over_batches_of_other_sizes(module):
    for samples in (6, BATCH, 12):
        module.forward(mx.io.DataBatch([mx.nd.ones((samples, FEATURES))], [mx.nd.zeros(samples)]), is_train=True)
        module.update()


RUNS = [
    untouched,
    after_a_step,
    after_a_reshape,
    reshaped_at_first,
    after_a_first_forward,
    updated_before_a_first_forward,
    over_batches_of_other_sizes,
]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("run", RUNS)
def test_an_update_without_backward_is_that_of_mxnet(run, route):
    results = []
    for module in (mx.mod.Module(model()), ROUTES[route]()):
        fill_free_memory()
        start(module, SGD)
        run(module)
        results.append(parameters_of(module))
    assert largest_error(results[1], results[0]) < 1e-12


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_updated_where_no_gradient_is_asked_for(route):
    module = ROUTES[route]()
    module.bind(*described(BATCH), grad_req="null")
    module.init_params(mx.init.Xavier())
    before = parameters_of(module)
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1, "wd": 0.5})
    module.update()
    assert largest_error(parameters_of(module), before) == 0


def test_added_gradients_begin_at_zero():
    executors = [
        s.simple_bind(mx.cpu(), grad_req="add", data=(BATCH, FEATURES)) for s in (model(), tofu.partition(model(), 4))
    ]
    for executor in executors:
        assert all(not gradient.asnumpy().any() for gradient in executor.grad_arrays if gradient is not None)


def test_gradients_of_the_low_level_are_zeros_before_the_first_backward():
    fill_free_memory()
    executor = tofu.bind(model(), [mx.cpu(0), mx.cpu(1)], data=(BATCH, FEATURES))
    executor.forward(is_train=True)
    assert not executor.gradient("fc0_weight").gather().asnumpy().any()
    with pytest.raises(tofu.TofuError, match=r"data has no gradient. Those that have one: fc0_weight, "):
        executor.gradient("data")
    executor.backward()
    assert executor.gradient("out_bias").gather().asnumpy().any()


def test_gradients_that_a_forward_may_have_overwritten_are_refused():
    module = start(tofu.mod.Module(model(), ngpus=4), SGD)
    module.forward_backward(batches(1)[0])
    module.update()
    before = parameters_of(module)
    for batch in (batches(1)[0], mx.io.DataBatch([mx.nd.ones((6, FEATURES))], [mx.nd.zeros(6)])):
        module.forward(batch, is_train=True)
        with pytest.raises(tofu.TofuError, match=r"came after the last backward\(\)"):
            module.update()
    assert largest_error(parameters_of(module), before) == 0
    module.forward_backward(batches(1)[0])
    module.update()
    assert np.isfinite(parameters_of(module)["fc0_weight"]).all()


def test_an_update_after_an_evaluation_of_another_size_is_refused():
    module = start(tofu.mod.Module(model(), ngpus=2), SGD)
    module.forward_backward(batches(1)[0])
    before = parameters_of(module)
    module.forward(mx.io.DataBatch([mx.nd.ones((6, FEATURES))], [mx.nd.zeros(6)]), is_train=False)
    with pytest.raises(tofu.TofuError, match="a batch of another size did, in evaluation too"):
        module.update()
    assert largest_error(parameters_of(module), before) == 0


@pytest.mark.parametrize("route", ROUTES)
def test_a_second_backward_gives_the_same_gradients(route):
    """MXNet's own gives wrong ones there: the first one has used the memory."""
    results = []
    for times in (1, 2):
        module = start(ROUTES[route](), SGD)
        module.forward(batches(1)[0], is_train=True)
        for _ in range(times):
            module.backward()
        module.update()
        results.append(parameters_of(module))
    assert largest_error(*results) == 0


def test_a_second_backward_is_of_the_parameters_as_they_are():
    results = []
    for again in (False, True):
        module = start(tofu.mod.Module(model(), ngpus=2), SGD)
        for step in range(2):
            if again or step == 0:
                module.forward(batches(1)[0], is_train=True)
            module.backward()
            module.update()
        results.append(parameters_of(module))
    assert largest_error(*results) == 0


def test_binding_again_by_force_begins_with_zeros():
    module = start(tofu.mod.Module(model(), ngpus=2), SGD)
    module.forward_backward(batches(1)[0])
    before = parameters_of(module)
    module.bind(*described(BATCH), force_rebind=True)
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1}, force_init=True)
    module.update()
    assert largest_error(parameters_of(bind(module)), before) == 0


def test_a_reshape_keeps_the_types_that_were_bound():
    """As in MXNet: shapes alone, given as pairs, say nothing of types, and a float64 model must not become one of float32."""
    results = []
    for module in (mx.mod.Module(model()), tofu.mod.Module(model(), ngpus=2)):
        start(module, SGD)
        module.reshape([("data", (6, FEATURES))], [("softmax_label", (6,))])
        results.append(parameters_of(module))
    assert results[1]["fc0_weight"].dtype == results[0]["fc0_weight"].dtype == np.float64
    assert largest_error(results[1], results[0]) == 0


@pytest.mark.parametrize("subscripts", ["ij->ij", "ij->ji"])
@pytest.mark.parametrize("workers", [2, 3])
def test_einsum_over_one_tensor_takes_that_tensor_for_its_shape(subscripts, workers):
    """Its gradient was computed over parts of another shape, and its kernel wrote outside of the worker's memory."""
    symbol = mx.sym.np.einsum(subscripts, mx.sym.Variable("data").as_np_ndarray())
    executor = tofu.partition(symbol, workers).simple_bind(mx.cpu(), data=(3, 4))
    gradient = np.arange(12, dtype="float32").reshape(3, 4)
    for _ in range(3):
        executor.forward(is_train=True)
        executor.backward(mx.nd.array(np.einsum(subscripts, gradient)))
        np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), gradient)
