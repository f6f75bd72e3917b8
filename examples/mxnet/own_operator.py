"""Describe an operator that Tofu does not know, in three lines: MXNet's quadratic function and its gradient.

python examples/mxnet/own_operator.py
"""

import numpy as np
from side_by_side import compare

import tofu
import mxnet as mx

BATCH = 64


@tofu.op("_contrib_quadratic")
def quadratic(data, *, a=0.0, b=0.0, c=0.0):
    """Compute each element from the same element of the data, so that any dimension can be split."""
    return lambda *i: a * data[i] ** 2 + b * data[i] + c


@tofu.op("_contrib_backward_quadratic")
def backward_quadratic(d_out, data, *, a=0.0, b=0.0, c=0.0):
    """Describe the gradient, which is a separate operator."""
    return lambda *i: d_out[i] * (2 * a * data[i] + b)


def train(workers, steps):
    """Return the loss of each step, and the plan."""
    mx.random.seed(1)
    draw = np.random.RandomState(0)
    data = draw.randn(BATCH * steps, 20)
    target = (data**2).sum(axis=1, keepdims=True)
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="hidden")
    net = mx.sym.contrib.quadratic(hidden, a=0.5, b=1.0, name="curve")
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(net, num_hidden=1, name="out"), name="regression")
    if workers > 1:
        net = tofu.partition(net, ngpus=workers)
    module = mx.mod.Module(net, label_names=["regression_label"], context=mx.cpu())
    batches = mx.io.NDArrayIter(data, target, BATCH, label_name="regression_label")
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    losses = []
    for batch in batches:
        module.forward_backward(batch)
        module.update()
        metric = mx.metric.MSE()
        module.update_metric(metric, batch.label)
        losses.append(metric.get()[1])
    return losses, net.plan if workers > 1 else None


if __name__ == "__main__":
    compare(train, __doc__)
