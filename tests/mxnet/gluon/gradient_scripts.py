"""Gradient scripts of Gluon's users. Runs differ only in the line that calls `partition`."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

from tests.mxnet.gluon.blocks import LOSS, build, build_perceptron, draw, list_parameters, train


def keep_arrays(partition):
    net, found = partition(build_perceptron()), []
    net(draw(6, 5))
    weight, gradient = net[0].weight.data(), net[0].weight.grad()
    row, flat = weight[1], gradient.reshape((-1,))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(2):
        train(net, trainer, 1)
        copy = mx.nd.zeros((8, 5), dtype="float64")
        copy[:] = weight
        copy[2] = row
        found += [*(array.copy() for array in (weight, row, gradient, flat)), copy]
        row[:] = 0.25
        weight[2:4] *= 2
        weight[mx.nd.array([5, 6])] = 0.5
        weight[np.array([0, 3]), [1, 2]] = -0.5
        found.append(net(draw(6, 5)))
    gradient[:] = 1
    net[1].weight.data().grad[0] = 3
    trainer.step(1, ignore_stale_grad=True)
    return found + list_parameters(net)


def keep_arrays_of_before(partition):
    """Arrays that a parameter replaced, because of another `grad_req` or initialization, keep their values."""
    net, found = partition(build_perceptron()), []
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer, 1)
    weight = net[0].weight
    kept = []
    for request in ("add", "null", "write"):
        kept += [weight.grad()] if weight.grad_req != "null" else []
        with autograd.record():
            loss = net(draw(6, 5)).sum()
        loss.backward()
        weight.grad_req = request
        found += [weight.grad().copy()] if request != "null" else []
        train(net, trainer, 2)
    kept += [weight.data(), weight.grad()]
    net.initialize(mx.init.One(), force_reinit=True)
    train(net, trainer, 1)
    kept[-2][0] = 3
    return [*found, *kept, train(net, trainer, 1)]


def set_values_before_backward(partition):
    net, found = partition(build_perceptron()), []
    net(draw(6, 5))
    weight = net[1].weight.data()

    for write in (
        lambda: net[1].weight.set_data(draw(4, 8, seed=3)),
        lambda: weight.__setitem__(1, 0.5),
        lambda: mx.nd.broadcast_mul(weight, mx.nd.full((1, 1), 3, dtype="float64"), out=weight),
    ):
        data = draw(6, 5)
        data.attach_grad()
        with autograd.record():
            loss = net(data).sum()
        write()
        loss.backward()
        found += [data.grad, net[0].weight.grad().copy(), weight.copy()]
    return found


def add_gradients(partition):
    net = partition(build_perceptron())
    net(draw(6, 5))
    for parameter in net.collect_params().values():
        parameter.grad_req = "add"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found = []
    for _ in range(2):
        for part in range(3):
            with autograd.record():
                loss = LOSS(net(draw(6, 5, seed=part)), draw(6, 4))
            loss.backward()
        found += [p.grad().copy() for p in net.collect_params().values()]
        trainer.step(18)
        net.collect_params().zero_grad()
    net[0].weight.zero_grad()
    return [*found, net[0].weight.grad(), *list_parameters(net)]


def zero_before_backward(partition):
    net, plain = partition(build_perceptron()), build(nn.Dense(5, in_units=5, prefix="plain_"))
    parameters, found = net.collect_params(), []
    parameters.update(plain.collect_params())
    trainer = gluon.Trainer(parameters, "sgd", {"learning_rate": 0.1})
    for request in ("write", "add"):
        parameters.setattr("grad_req", request)
        for step in range(3):
            with autograd.record():
                loss = LOSS(net(plain(draw(6, 5, seed=step))), draw(6, 4, seed=9))
            parameters.zero_grad()
            loss.backward()
            trainer.step(6)
        parameters.zero_grad()
        found += [parameter.grad().copy() for parameter in parameters.values()]
    return [loss, *found, *list_parameters(net), *list_parameters(plain)]


def gradients_of_zeros_again(partition):
    """A renewed gradient is zero, and a Trainer ignores it until the next backward."""
    net = partition(build_perceptron())
    net(draw(6, 5))
    net.collect_params().setattr("grad_req", "add")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "wd": 0.1})
    train(net, trainer, 1)
    found = []
    for renew in (
        lambda: net.collect_params().reset_ctx(mx.cpu(0)),
        lambda: net.collect_params().setattr("grad_req", "write"),
    ):
        with autograd.record():
            loss = net(draw(6, 5)).sum()
        loss.backward()
        renew()
        found += [parameter.grad().copy() for parameter in net.collect_params().values()]
        trainer.step(6, ignore_stale_grad=True)
        found += [array.copy() for array in list_parameters(net)]
    return [*found, train(net, trainer), *list_parameters(net)]


def backward_apart(partition):
    net = partition(build_perceptron())
    with autograd.record():
        first, second = net(draw(6, 5)).sum(), (net(draw(6, 5, seed=1)) ** 2).sum()
    second.backward()
    first.backward()
    found = [p.grad().copy() for p in net.collect_params().values()]
    with autograd.record():
        first, second = net(draw(6, 5)).sum(), (net(draw(6, 5, seed=1)) ** 2).sum()
    autograd.backward([first, second], [mx.nd.array([2.0], dtype="float64"), mx.nd.array([0.5], dtype="float64")])
    return found + [p.grad() for p in net.collect_params().values()]


def differentiate_inputs(partition):
    net, before = partition(build_perceptron()), build(nn.Dense(5, prefix="before_"))
    data = draw(6, 3)
    data.attach_grad()
    with autograd.record():
        loss = (net(before(data)) ** 2).sum()
    loss.backward()
    alone = draw(6, 5)
    alone.attach_grad()
    with autograd.record():
        output = net(alone)
    output.backward(draw(6, 4, seed=3))
    return [data.grad, alone.grad, before.weight.grad(), *(p.grad() for p in net.collect_params().values())]


def differentiate_inputs_alone(partition):
    """`autograd.grad` of an input leaves the gradients of parameters unchanged, or adds to them."""
    net, found = partition(build_perceptron()), []
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for request in ("write", "add"):
        net.collect_params().setattr("grad_req", request)
        train(net, trainer, 1)
        data = draw(6, 5, seed=9)
        data.attach_grad()
        with autograd.record():
            loss = (net(data) ** 2).sum()
        found += autograd.grad(loss, [data])
        found += [parameter.grad().copy() for parameter in net.collect_params().values()]
    return found


def freeze(partition):
    net = partition(build_perceptron())
    net[0].collect_params().setattr("grad_req", "null")
    trainer = gluon.Trainer(net[1].collect_params(), "sgd", {"learning_rate": 0.1})
    found = [train(net, trainer)]
    net[0].collect_params().setattr("grad_req", "write")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found.append(train(net, trainer))
    net.collect_params().setattr("grad_req", "null")
    data = draw(6, 5)
    data.attach_grad()
    with autograd.record():
        output = net(data)
    output.backward()
    return [*found, data.grad, *list_parameters(net)]


def grow_between_call_and_backward(partition):
    net = partition(build_perceptron())
    net(draw(6, 5))
    with autograd.record():
        loss = (net(draw(6, 5)) ** 2).sum()
    last = nn.Dense(3, in_units=4, prefix="c_")
    last.cast("float64")
    last.initialize(mx.init.One())
    net.add(last)
    net.hybridize()
    found = [net(draw(6, 5))]
    loss.backward()
    return [*found, *(net[layer].weight.grad() for layer in (0, 1)), *list_parameters(net)]


def averages_of_two_calls(partition):
    """The call whose backward runs last updates the moving average. The inputs with gradients decide which call that is."""
    found = []
    for wanting in ((), (0,), (1,), (0, 1)):
        net = partition(build(nn.BatchNorm(momentum=0.0, prefix="bn_"), nn.Dense(4, prefix="out_")))
        inputs = [draw(6, 5), 1 + draw(6, 5, seed=1)]
        net(inputs[0])
        for number in wanting:
            inputs[number].attach_grad()
        with autograd.record():
            loss = sum((net(data) ** 2).sum() for data in inputs)
        loss.backward()
        found += [net[0].running_mean.data(), net[0].running_var.data(), *(inputs[number].grad for number in wanting)]
    return found
