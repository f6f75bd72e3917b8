import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

LOSS = gluon.loss.L2Loss()


def build(*layers, dtype="float64", init=None):
    """Build a block of layers with equal names and values at each call."""
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
