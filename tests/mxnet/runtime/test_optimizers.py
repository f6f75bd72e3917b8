import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    ModuleCase,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    split_module,
    start,
    train,
    with_optimizer,
)
from tests.shared.optimizer_cases import CASES
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.optimizer.shardwise import on_shards

STEPS = 10  # some learning rates fall at the eighth step


def test_no_optimizer_is_left_out():
    registered = mx.optimizer.Optimizer.opt_registry.items()
    built_in = {n for n, o in registered if o.__module__.startswith("mxnet.") and "svrg" not in o.__module__}
    assert {case.optimizer for case in CASES} == built_in


@pytest.mark.parametrize("optimizer", ["sgd", "nag", "lars", "lamb", "lbsgd", "adam"])
def test_half_precision_with_master_copies(optimizer):
    """MXNet's CPU kernels multiply no float16, so weights are cast; weights, gradients and updates are float16."""
    parameters = {"learning_rate": 0.05, "multi_precision": True}
    if optimizer not in ("lamb", "adam"):
        parameters["momentum"] = 0.9
    case, steps = ModuleCase(optimizer, parameters), batches(STEPS, dtype="float32")
    weight = mx.sym.Cast(mx.sym.Variable("fc_weight", dtype="float16"), dtype="float32")
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), weight=weight, num_hidden=10, no_bias=True, name="fc")
    net = mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch")
    expected = train(start(mx.mod.Module(net), case, "float32"), steps)
    module = tofu.mod.Module(tofu.partition(net, 4, hints={"fc_weight": (0, 1)}))
    found = train(start(module, case, "float32"), steps)
    assert found["fc_weight"].dtype == np.float16
    assert largest_error(found, expected) < 1e-3
    masters = arrays_in(module.optimizer_states["fc_weight"])
    assert masters
    assert {array.dtype for array in masters} == {np.float32}
    assert all(isinstance(array, ShardedArray) for array in masters)


def arrays_in(state):
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in arrays_in(part)]
    return [] if state is None else [state]


class UserOptimizer(mx.optimizer.Optimizer):
    def create_state(self, index, weight):
        return mx.nd.array(weight, ctx=weight.context)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        grad = grad / mx.nd.maximum(1.0, grad.norm() / 0.1)
        if len(grad.shape) == 2:
            grad = grad - grad.mean(axis=1, keepdims=True) - 0.1 * grad.sum(axis=0)
            grad = grad * mx.nd.slice_like(weight, mx.nd.zeros((1, grad.shape[1])))
            grad = grad + mx.nd.sum(mx.nd.expand_dims(grad, axis=1) * mx.nd.slice(weight, (0, 0), (1, None)), axis=1)
            state[0:3] = grad[0:3] * 2
        state[:] = mx.nd.sort(state + 0.01 * grad, axis=0)
        largest = weight.abs().max()
        weight[:] -= self._get_lr(index) * (grad + 0.1 * state / largest)
        mx.nd.clip(weight, -1.0, 1.0, out=weight)


class NoisyOptimizer(mx.optimizer.Optimizer):
    def create_state(self, index, weight):
        return mx.nd.zeros(weight.shape, weight.context, weight.dtype)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        state += grad
        weight[:] -= self._get_lr(index) * (state + 0.01 * mx.nd.random.normal_like(weight))
        if self._index_update_count[index] % 2 == 0:
            mx.nd.reset_arrays(state, num_arrays=1)


class SquareNormOptimizer(mx.optimizer.Optimizer):
    """Optimizer whose step is the sum of squares of a weight that several workers may replicate."""

    def create_state(self, index, weight):
        return None

    def update(self, index, weight, grad, state):
        self._update_count(index)
        squares = mx.nd.multi_sum_sq(weight, num_arrays=1).asscalar() + weight.norm().asscalar()
        weight[:] -= self._get_lr(index) * grad / (1 + squares)


def test_a_norm_in_half_precision_does_not_overflow():
    halves = [((0, 4), (0, 128)), ((4, 8), (0, 128))]
    weight = ShardedArray(ShardedTensor("weight", (8, 128), "float16", halves, [mx.cpu(0), mx.cpu(1)]))
    weight[:] = 10
    with on_shards():
        assert weight.norm().asscalar() == 320


def test_replicas_count_once_in_a_norm(monkeypatch):
    case, steps = ModuleCase("bysquares", {"learning_rate": 0.5}, bias=False), batches(3)
    hints = {"fc0_weight": (None, None), "fc1_weight": (0, None)}
    monkeypatch.setitem(mx.optimizer.Optimizer.opt_registry, "bysquares", SquareNormOptimizer)
    expected = train(start(mx.mod.Module(model(bias=False)), case), steps)
    module = start(tofu.mod.Module(tofu.partition(model(bias=False), 4, hints=hints)), case)
    assert [len(set(module.executor.variables[name].regions)) for name in hints] == [1, 2]
    assert largest_error(train(module, steps), expected) < 1e-7  # multi_sum_sq rounds to single precision


@pytest.mark.parametrize("optimizer", [UserOptimizer, NoisyOptimizer])
def test_an_optimizer_of_the_user(optimizer, monkeypatch):
    case, steps = ModuleCase("own", {"learning_rate": 0.1}), batches(STEPS)
    monkeypatch.setitem(mx.optimizer.Optimizer.opt_registry, "own", optimizer)
    expected = train(start(mx.mod.Module(model()), case), steps)
    assert largest_error(train(start(split_module(case), case), steps), expected) < 1e-10


def test_reshaped_views_are_refused():
    class Reshaping(mx.optimizer.Optimizer):
        def update(self, index, weight, grad, state):
            weight.reshape((-1,))[:] = 0

    module = bind(split_module(ModuleCase("sgd")))
    module.init_params()
    with pytest.warns(UserWarning, match="rescale_grad"):
        module.init_optimizer(optimizer=Reshaping())
    before = parameters_of(module)
    module.forward_backward(batches(1)[0])
    with pytest.raises(tofu.UnsupportedError, match=r"not possible for shards.*array\.asnumpy"):
        module.update()
    assert all((parameters_of(module)[name] == value).all() for name, value in before.items())


def test_a_state_is_created_at_the_first_update_of_its_weight(tmp_path):
    """DCASGD's state is a copy of the weight at its first update. Saving and loading before it must not create the state."""
    case, steps = ModuleCase("dcasgd", {"learning_rate": 0.5}), batches(3)

    def run(module, read_states):
        bind(module).init_params(mx.init.Zero())
        with_optimizer(module, case)
        read_states(module)
        requests = dict.fromkeys(("fc0_weight", "fc1_weight"), "null")
        shapes = module.data_shapes, module.label_shapes
        module.bind(*shapes, force_rebind=True, grad_req=requests)
        train(module, steps[:1])
        module.bind(*shapes, force_rebind=True)
        mx.random.seed(7)
        module.init_params(mx.init.Xavier(), force_init=True)
        return train(module, steps)

    def save_and_load(module):
        module.save_optimizer_states(f"{tmp_path}/none.states")
        module.load_optimizer_states(f"{tmp_path}/none.states")

    expected = run(mx.mod.Module(model()), lambda module: None)
    assert largest_error(run(split_module(case), save_and_load), expected) < 1e-12
    module = split_module(case)
    assert largest_error(run(module, lambda module: module.optimizer_states), expected) < 1e-12
    assert module.optimizer_states.keys() == set(expected)


def has_states_sharded_as_weights(module):
    """Return True if every state of the shape of its weight is sharded exactly as the weight."""
    updater, executor = module._shard_optimizer.updater, module.executor
    states = [
        (array, executor.variables[name])
        for index, name in module._shard_optimizer.names.items()
        for array in arrays_in(updater.states[index])
    ]
    return bool(states) and all(
        isinstance(array, ShardedArray)
        and array.tensor.matches(weight.like(weight.shape, array.dtype))
        and [shard.shape for shard in array.tensor.arrays] == [shard.shape for shard in weight.arrays]
        for array, weight in states
        if array.shape == weight.shape
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_states_follow_their_weights_to_other_plans_and_workers(optimizer, tmp_path):
    case, steps = ModuleCase(optimizer, {"momentum": 0.9} if optimizer == "sgd" else {}), batches(2, dtype="float32")
    symbol = tofu.partition(model(), 4, hints={"data": 0})
    module = start(tofu.mod.Module(symbol), case, "float32")
    symbol.settings = tofu.partition(model(), 4).settings
    small = mx.io.DataBatch([steps[0].data[0][:2]], [steps[0].label[0][:2]])
    layouts = []
    for batch in (steps[0], small, steps[1]):
        train(module, [batch])
        assert has_states_sharded_as_weights(module)
        layouts.append([variable.regions for variable in module.executor.variables.values()])
    assert layouts[0] != layouts[1]
    prefix = str(tmp_path / "model")
    module.save_checkpoint(prefix, 1, save_optimizer_states=True)
    for workers in (2, 3, 6):
        other = tofu.mod.Module.load(prefix, 1, load_optimizer_states=True, ngpus=workers)
        with_optimizer(bind(other, "float32"), case)
        assert has_states_sharded_as_weights(other)
