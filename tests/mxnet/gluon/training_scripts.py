import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

from tests.mxnet.gluon.blocks import build, build_images, build_perceptron, draw, list_parameters, train


def train_images(partition):
    net, found = partition(build_images()), []
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01})
    for rows in (4, 6, 4):
        train(net, trainer, 2, (rows, 3, 6, 6))
        found += [net(draw(5, 3, 6, 6)), net(draw(4, 3, 6, 6)), net[1].running_mean.data().copy()]
    return found + list_parameters(net)


def continue_after_training(partition):
    net = build_perceptron()
    for parameter in net.collect_params().values():
        parameter.grad_req = "add"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer)
    return [train(partition(net), trainer), *list_parameters(net)]


def clip_gradients(partition):
    net = build_perceptron()
    net.cast("float32")
    net = partition(net)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9})
    norms = []

    def clip():
        norms.append(gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 0.1))

    train(net, trainer, each=clip, dtype="float32")
    return [mx.nd.array(norms), *list_parameters(net)]


class Pair(nn.HybridBlock):
    def __init__(self):
        super().__init__(prefix="pair_")
        with self.name_scope():
            self.left, self.right = nn.Dense(4), nn.Dense(4)
            self.scale = self.params.get_constant("scale", mx.nd.array([[1.0, 2.0, 3.0, 4.0]]))

    def hybrid_forward(self, F, first, others, scale):
        left, right = self.left(first), self.right(others[0]) * others[1]
        return left, [F.broadcast_mul(right, scale), left + right]


def several_inputs(partition):
    net = partition(build(Pair()))
    others = [draw(6, 3), draw(6, 4)]
    with autograd.record():
        first, (second, third) = net(draw(6, 5), others)
        loss = (first * second).sum() + third.sum()
    loss.backward()
    parameters = sorted(net.collect_params().items())
    return [first, second, third, *(p.grad() for _, p in parameters if p.grad_req != "null")]


def recurrent(partition):
    net = partition(build(gluon.rnn.LSTM(8, input_size=5, prefix="lstm_")))
    states = [mx.nd.zeros((1, 4, 8), dtype="float64"), mx.nd.zeros((1, 4, 8), dtype="float64")]
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for step in range(2):
        states = [state.detach() for state in states]
        with autograd.record():
            output, states = net(draw(3, 4, 5, seed=step), states)
            loss = (output**2).sum()
        loss.backward()
        trainer.step(4)
    return [output, *states, *list_parameters(net)]


def hybridize_again(partition):
    """`hybridize()` traces a block again, which may have changed."""

    class Scaled(nn.HybridBlock):
        def __init__(self):
            super().__init__(prefix="scaled_")
            self.scale = 1

        def hybrid_forward(self, F, x):
            return x * self.scale

    net = build(nn.Dense(8, prefix="a_"), Scaled(), nn.Dense(4, prefix="b_"))
    net.hybridize()
    net, found = partition(net), []
    net(draw(6, 5))

    def go_on():
        net.hybridize(static_alloc=True)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        trainer.step(6, ignore_stale_grad=True)
        return [train(net, trainer, 2), *list_parameters(net)]

    for scale in (1, 1, 2):
        net[1].scale = scale
        found += go_on()
        with autograd.record():
            loss = net(draw(6, 5)).sum()
        loss.backward()
    net._children["2"] = build(nn.Dense(4, in_units=8, prefix="new_"), init=mx.init.One())
    found += go_on()
    net.add(build(nn.Dense(4, in_units=4, prefix="last_"), init=mx.init.One()))
    return found + go_on()


def save_and_load(partition, folder):
    net = partition(build_perceptron())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    train(net, trainer)
    net.save_parameters(f"{folder}/net.params")
    trainer.save_states(f"{folder}/net.states")
    found = [train(net, trainer)]
    net.load_parameters(f"{folder}/net.params")
    trainer.load_states(f"{folder}/net.states")
    found.append(train(net, trainer))
    plain = build_perceptron()
    plain.load_parameters(f"{folder}/net.params")
    trainer = gluon.Trainer(plain.collect_params(), "adam", {"learning_rate": 0.1})
    trainer.load_states(f"{folder}/net.states")
    found.append(train(plain, trainer))
    net.export(f"{folder}/exported")
    imported = gluon.SymbolBlock.imports(f"{folder}/exported-symbol.json", ["data"], f"{folder}/exported-0000.params")
    found.append(imported(draw(6, 5)))
    imported = partition(imported)
    return [*found, imported(draw(6, 5)), *list_parameters(net)]


def cast_later(partition):
    net = partition(build_perceptron())
    net.cast("float32")
    net(draw(6, 5).astype("float32"))
    net.cast("float64")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found = [train(net, trainer), *list_parameters(net)]
    net.cast("float64")
    found += [parameter.grad().copy() for parameter in net.collect_params().values()]
    with autograd.record():
        net(draw(6, 5))
    net.cast("float64")
    return [*found, train(net, trainer), *list_parameters(net)]


def use_estimator(partition):
    from mxnet.gluon.contrib.estimator import estimator

    net = partition(build(nn.Dense(8, activation="relu", prefix="a_"), nn.Dense(3, prefix="b_"), dtype="float32"))
    data = gluon.data.ArrayDataset(draw(18, 5).astype("float32"), mx.nd.array(np.arange(18) % 3))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    accuracy = mx.metric.Accuracy()
    fitted = estimator.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=accuracy, trainer=trainer)
    fitted.logger.setLevel("ERROR")
    fitted.fit(gluon.data.DataLoader(data, 6), epochs=2)
    return [mx.nd.array([fitted.train_metrics[0].get()[1]]), *list_parameters(net)]
