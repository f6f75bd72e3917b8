"""Train a convolutional network with MXNet's own Module. One line partitions the script for one device.

python examples/mxnet/cnn.py
python examples/mxnet/cnn.py --steps 20 --workers 8
"""

from side_by_side import compare, draw_images

import tofu
import mxnet as mx

BATCH = 32


def build():
    """Return two convolutions and a classifier."""
    net = mx.sym.Variable("data")
    for number, filters in enumerate((32, 64), start=1):
        net = mx.sym.Convolution(net, num_filter=filters, kernel=(3, 3), pad=(1, 1), name=f"conv{number}")
        net = mx.sym.Activation(mx.sym.BatchNorm(net, name=f"bn{number}"), act_type="relu")
        net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2))
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def train(workers, steps):
    """Return the loss of each step, and the plan."""
    mx.random.seed(1)
    images, labels = draw_images(BATCH * steps)
    batches = mx.io.NDArrayIter(images, labels, BATCH)
    net = build()
    if workers > 1:
        net = tofu.partition(net, ngpus=workers)  # the only new line
    module = mx.mod.Module(net, context=mx.cpu())
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.05, "momentum": 0.9})
    losses = []
    for batch in batches:
        module.forward_backward(batch)
        module.update()
        metric = mx.metric.CrossEntropy()
        module.update_metric(metric, batch.label)
        losses.append(metric.get()[1])
    return losses, net.plan if workers > 1 else None


if __name__ == "__main__":
    compare(train, __doc__)
