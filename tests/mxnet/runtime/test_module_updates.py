from functools import partial

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import assert_all_close, parameters_of
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor


def build():
    net = mx.sym.FullyConnected(mx.sym.Variable("data", dtype="float64"), num_hidden=8, no_bias=True, name="a")
    net = mx.sym.BatchNorm(net, fix_gamma=False, name="bn")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=4, name="b")
    return mx.sym.LinearRegressionOutput(net, mx.sym.Variable("y", dtype="float64"), name="lro")


def make_module(symbol, optimizer="adam"):
    module = mx.mod.Module(symbol, label_names=["y"])
    data = mx.io.DataDesc("data", (6, 5), "float64"), mx.io.DataDesc("y", (6, 4), "float64")
    module.bind(data[:1], data[1:])
    rng = np.random.RandomState(0)
    shapes = {"a_weight": (8, 5), "bn_gamma": (8,), "bn_beta": (8,), "b_weight": (4, 8), "b_bias": (4,)}
    parameters = {name: mx.nd.array(rng.randn(*shape), dtype="float64") for name, shape in shapes.items()}
    states = {"bn_moving_mean": mx.nd.zeros(8, dtype="float64"), "bn_moving_var": mx.nd.ones(8, dtype="float64")}
    module.init_params(None, parameters, states)
    module.init_optimizer(optimizer=optimizer, optimizer_params={"learning_rate": 0.1})
    return module


def step(module, number):
    rng = np.random.RandomState(number)
    data, label = (mx.nd.array(rng.randn(*shape), dtype="float64") for shape in ((6, 5), (6, 4)))
    for part in (partial(module.forward, mx.io.DataBatch([data], [label])), module.backward, module.update):
        part()
        mx.nd.waitall()  # one device changes a BatchNorm's statistics while others read them


def partition(workers=2):
    return tofu.partition(build(), workers, hints={"a_weight": 0, "b_weight": 1})


@pytest.mark.parametrize("workers", [2, 3])
def test_a_step_gathers_no_parameter_and_equals_one_device(workers, monkeypatch):
    expected, module, gathered = make_module(build()), make_module(partition(workers)), []
    step(module, 0)
    gather = ShardedTensor.gather
    with monkeypatch.context() as patch:
        patch.setattr(ShardedTensor, "gather", lambda t, out=None: gathered.append(t.name) or gather(t, out))
        for number in range(1, 4):
            step(module, number)
    assert set(gathered) == {"lro_output"}
    for number in range(4):
        step(expected, number)
    assert_all_close(parameters_of(module), parameters_of(expected), rtol=0, atol=1e-11)
    for state in module._updater.states[0]:
        assert isinstance(state, ShardedArray)


def test_reads_and_writes_of_scripts_between_steps_count():
    found = []
    for symbol in (build(), partition()):
        module = make_module(symbol)
        executor = module._exec_group.execs[0]
        weight, gradient = executor.arg_dict["a_weight"], executor.grad_dict["a_weight"]
        row, mean = weight[2], executor.aux_dict["bn_moving_mean"][3:5]
        step(module, 0)
        found.append([array.asnumpy() for array in (weight, gradient, row, mean, executor.aux_dict["bn_moving_mean"])])
        weight[1:3] *= 0.5
        row[:] = 0.25
        mean += 1
        executor.aux_dict["bn_moving_var"][:] = 2
        module.forward(mx.io.DataBatch([mx.nd.ones((6, 5), dtype="float64")], [mx.nd.ones((6, 4), dtype="float64")]))
        mx.nd.waitall()
        module.backward()
        mx.nd.waitall()
        gradient *= 3  # clipping, say
        gradient[0] = 1
        module.update()
        module._updater.set_states(module._updater.get_states())
        step(module, 2)
        module.forward(mx.io.DataBatch([mx.nd.ones((6, 5), dtype="float64")], [mx.nd.ones((6, 4), dtype="float64")]))
        module.update()
        found[-1] += [gradient.asnumpy(), *parameters_of(module).values()]
    assert_all_close(found[1], found[0], rtol=0, atol=1e-11)
