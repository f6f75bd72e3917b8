"""What Gluon's users write runs on workers as on one device: each script runs twice, and differs by the one line alone."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import tofu

LOSS = gluon.loss.L2Loss()


def build(*layers, dtype="float64", init=None):
    """A block of layers with names and values that are the same at each call."""
    mx.random.seed(1)
    np.random.seed(1)
    block = layers[0] if len(layers) == 1 else nn.HybridSequential(prefix="net_")
    if len(layers) > 1:
        block.add(*layers)
    block.cast(dtype)
    block.initialize(init or mx.init.Xavier())
    return block


def build_perceptron():
    return build(nn.Dense(8, activation="tanh", prefix="a_"), nn.Dense(4, prefix="b_"))


def build_images():
    return build(
        nn.Conv2D(4, 3, padding=1, prefix="conv_"),
        nn.BatchNorm(prefix="bn_"),
        nn.Activation("relu", prefix="relu_"),
        nn.Flatten(prefix="flat_"),
        nn.Dense(4, prefix="out_"),
    )


def draw(*shape, seed=0):
    return mx.nd.array(np.random.RandomState(seed).randn(*shape), dtype="float64")


def train(net, trainer, steps=3, shape=(6, 5), each=lambda: None, dtype="float64"):
    for step in range(steps):
        with autograd.record():
            data, label = draw(*shape, seed=step), draw(shape[0], 4, seed=step + 50)
            loss = LOSS(net(data.astype(dtype)), label.astype(dtype))
        loss.backward()
        each()
        trainer.step(shape[0])
    return loss


def list_parameters(net):
    return [parameter.data() for _, parameter in sorted(net.collect_params().items())]


def train_perceptron(partition):
    net = partition(build_perceptron())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    return [train(net, trainer), *list_parameters(net)]


def train_images(partition):
    """BatchNorm's statistics, and evaluation with other sizes of the batch between the steps."""
    net, found = partition(build_images()), []
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01})
    for rows in (4, 6, 4):
        train(net, trainer, 2, (rows, 3, 6, 6))
        found += [net(draw(5, 3, 6, 6)), net(draw(4, 3, 6, 6)), net[1].running_mean.data().copy()]
    return found + list_parameters(net)


def trainer_before_partition(partition):
    net = build_perceptron()
    net(draw(6, 5))
    trainer = gluon.Trainer(net.collect_params(), "nag", {"learning_rate": 0.1, "momentum": 0.5})
    return [train(partition(net), trainer), *list_parameters(net)]


def continue_after_training(partition):
    """Values and gradients that are there already go on."""
    net = build_perceptron()
    for parameter in net.collect_params().values():
        parameter.grad_req = "add"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer)
    return [train(partition(net), trainer), *list_parameters(net)]


def clip_gradients(partition):
    """By MXNet's own function, which is for single precision."""
    net = build_perceptron()
    net.cast("float32")
    net = partition(net)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9})
    norms = []

    def clip():
        norms.append(gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 0.1))

    train(net, trainer, each=clip, dtype="float32")
    return [mx.nd.array(norms), *list_parameters(net)]


def keep_arrays(partition):
    """Arrays, and views of them, that were taken once hold what the parameters hold, and what is written to them counts."""
    net, found = partition(build_perceptron()), []
    net(draw(6, 5))
    weight, gradient = net[0].weight.data(), net[0].weight.grad()
    row, flat = weight[1], gradient.reshape((-1,))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(2):
        train(net, trainer, 1)
        found += [array.copy() for array in (weight, row, gradient, flat)]
        found.append(mx.nd.zeros((8, 5), dtype="float64"))
        found[-1][:] = weight
        found[-1][2] = row
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
    """Arrays that are a parameter's no more, since it has another `grad_req` or was initialized again, hold what they held."""
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
        weight.grad_req = request  # nobody has read the gradient yet
        found += [weight.grad().copy()] if request != "null" else []
        train(net, trainer, 2)
    kept += [weight.data(), weight.grad()]
    net.initialize(mx.init.One(), force_reinit=True)
    train(net, trainer, 1)
    kept[-2][0] = 3
    return [*found, *kept, train(net, trainer, 1)]


def set_values(partition):
    net = partition(build_perceptron())
    net(draw(6, 5))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer, 1)
    net[0].weight.set_data(draw(8, 5, seed=8))
    net[1].bias.data()[:] = 2
    net[1].weight.data()[1:3] = draw(2, 8, seed=9)
    return [net(draw(6, 5)), train(net, trainer, 1), *list_parameters(net)]


def set_values_before_backward(partition):
    """A backward sees what was written to parameters since its forward, wholly or in part."""
    net, found = partition(build_perceptron()), []
    net(draw(6, 5))
    weight = net[1].weight.data()

    def set_whole():
        net[1].weight.set_data(draw(4, 8, seed=3))

    def set_row():
        weight[1] = 0.5

    def scale():
        mx.nd.broadcast_mul(weight, mx.nd.full((1, 1), 3, dtype="float64"), out=weight)

    for write in (set_whole, set_row, scale):
        data = draw(6, 5)
        data.attach_grad()
        with autograd.record():
            loss = net(data).sum()
        write()
        loss.backward()
        found += [data.grad, net[0].weight.grad().copy(), weight.copy()]
    return found


def add_gradients(partition):
    """Gradients over several backward passes."""
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
    """Gradients are set to zeros between forward and backward, when those of the step before are gone already."""
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


def call_twice(partition):
    """Both calls wait for the same backward; a third is never differentiated."""
    net = partition(build_perceptron())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found = []
    for step in range(3):
        with autograd.record():
            near, far = net(draw(6, 5, seed=step)), net(draw(4, 5, seed=step + 9))
            loss = (near**2).sum() - (far**3).mean()
            unused = net(draw(6, 5)) * 2
        loss.backward()
        found += [unused.copy(), *(p.grad().copy() for p in net.collect_params().values())]
        trainer.step(6)
    return found + list_parameters(net)


def backward_apart(partition):
    """Two graphs, differentiated one after the other: the gradients are those of the last."""
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
    """An input that wants a gradient, and blocks before and after on one device."""
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
    """`autograd.grad` of an input leaves the gradients of the parameters as the last backward wrote them, or added to them."""
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


class Pair(nn.HybridBlock):
    """Two inputs, one of them nested, and three outputs."""

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
    """Gluon's fused layer, with its states as inputs and outputs."""
    net = build(gluon.rnn.LSTM(8, input_size=5, prefix="lstm_"))
    net = partition(net)
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
    """`hybridize()` traces a block again, which may have other layers then, and run otherwise."""

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
    """Files of parameters and of a Trainer's states are MXNet's, both ways."""
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
    net.cast("float64")  # the gradients are gone
    return [*found, train(net, trainer), *list_parameters(net)]


def grow_between_call_and_backward(partition):
    """The block gets a layer and is traced again while a call waits for its backward."""
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


def initialize_again(partition):
    net = partition(build_perceptron())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer)
    mx.random.seed(7)
    net.initialize(mx.init.Normal(0.1), force_reinit=True)
    return [train(net, trainer), *list_parameters(net)]


def gradients_of_zeros_again(partition):
    """What gives a parameter a new gradient gives it zeros, which a Trainer passes over until the next backward."""
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


SCRIPTS = [
    train_perceptron,
    train_images,
    trainer_before_partition,
    continue_after_training,
    clip_gradients,
    keep_arrays,
    keep_arrays_of_before,
    set_values,
    set_values_before_backward,
    add_gradients,
    zero_before_backward,
    call_twice,
    backward_apart,
    differentiate_inputs,
    differentiate_inputs_alone,
    freeze,
    several_inputs,
    recurrent,
    hybridize_again,
    save_and_load,
    cast_later,
    grow_between_call_and_backward,
    initialize_again,
    gradients_of_zeros_again,
    use_estimator,
]


def read(arrays):
    return [np.array(array.asnumpy()) for array in arrays]


@pytest.mark.filterwarnings(
    "ignore:Cannot decide type:UserWarning"
)  # of SymbolBlock.imports, which says no type of the data
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.parametrize("workers", [2, 3])
def test_script_gives_what_one_device_gives(script, workers, tmp_path):
    extra = [tmp_path] if script is save_and_load else []
    expected = read(script(lambda net: net, *extra))
    partitioned = []

    def partition(net):
        partitioned.append(tofu.gluon.partition(net, workers))
        return partitioned[-1]

    found = read(script(partition, *extra))
    assert {net.plan.workers for net in partitioned} == {workers}
    tolerance = 1e-5 if script in (clip_gradients, use_estimator, cast_later) else 1e-11
    assert len(found) == len(expected)
    for own, one_device in zip(found, expected, strict=True):
        assert own.shape == one_device.shape
        np.testing.assert_allclose(own, one_device, rtol=0, atol=tolerance * max(1, np.abs(one_device).max()))


@pytest.mark.parametrize("both", [False, True])
def test_averages_move_on_where_calls_have_them_in_different_places(both):
    """Calls of two sizes wait for their backward together, by plans that have the averages elsewhere."""

    def run(workers):
        net = build(
            nn.Conv2D(8, 3, strides=2, padding=1, use_bias=False, prefix="a_"),
            nn.HybridLambda(lambda F, x: F.pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))),
            nn.Conv2D(2, (3, 2), padding=1, prefix="b_"),
            nn.BatchNorm(prefix="bn_"),
            nn.Activation("tanh", prefix="tanh_"),
            nn.AvgPool2D(2, strides=1, prefix="pool_"),
            nn.Dense(10, prefix="out_"),
        )
        net(draw(8, 1, 5, 5))
        for parameter in net.collect_params(".*weight").values():
            parameter.set_data(draw(*parameter.shape))
        net = tofu.gluon.partition(net, workers)
        with autograd.record():
            first, second = net(draw(8, 1, 5, 5)).sum(), net(draw(4, 1, 5, 5)).sum()
        autograd.backward([first, second] if both else [first])
        return read([net[3].running_mean.data(), net[3].running_var.data(), net[0].weight.grad()])

    for own, one_device in zip(run(8), run(1), strict=True):
        np.testing.assert_allclose(own, one_device, rtol=1e-10, atol=1e-10)
