"""Train a residual network in a Gluon training loop. One line partitions the loop for one device.

python examples/mxnet/gluon_resnet.py
"""

from side_by_side import compare, draw_images

import tofu
import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn

BATCH = 32


class Residual(nn.HybridBlock):
    """Two convolutions, added to their input."""

    def __init__(self, channels):
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            for _ in range(2):
                self.body.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, 3, padding=1, use_bias=False))

    def hybrid_forward(self, F, x):
        """`F` is mx.nd or mx.sym."""
        return x + self.body(x)


def build():
    """Return residual blocks at two resolutions, and a classifier."""
    net = nn.HybridSequential()
    for channels in (32, 64):
        net.add(nn.Conv2D(channels, 3, padding=1), Residual(channels), Residual(channels), nn.MaxPool2D())
    net.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def train(workers, steps):
    """Return the loss of each step, and the plan."""
    mx.random.seed(1)
    images, labels = draw_images(BATCH * steps)
    net = build()
    net.cast("float64")  # batch normalization amplifies rounding in single precision
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net = tofu.gluon.partition(net, ngpus=workers)  # the only new line
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02})
    measure = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for data, label in gluon.data.DataLoader(gluon.data.ArrayDataset(images.astype("float64"), labels), BATCH):
        with autograd.record():
            loss = measure(net(data), label)
        loss.backward()
        trainer.step(BATCH)
        losses.append(loss.mean().asscalar())
    return losses, net.plan if workers > 1 else None


if __name__ == "__main__":
    compare(train, __doc__)
