"""CTCLoss, which can only be split by batch.

The forward operator also computes the gradient. The backward operator only scales this gradient. Tofu's operator, which
also writes the results of a batch without labels, replaces MXNet's operator on workers.
"""

from tdl_ops.mxnet import op
from tofu.tdl import Opaque, output, unread, unwritten

loss_and_gradient = Opaque(name="connectionist_temporal_classification")


@op("CTCLoss")
def ctc_loss(data, label, *lengths):
    result = lambda b: loss_and_gradient(data[:, b, :], label[b, :], *(length[b] for length in lengths))
    return lambda b: result(b)[0], output("t b k", lambda t, b, k: result(b)[1, t, k])


op("_tofu_ctc_loss")(ctc_loss.function)


@op("_backward_ctc_loss")
def backward_ctc_loss(d_loss, d_gradient, loss, gradient, *, output_shapes):
    value = lambda t, b, k: d_loss[b] * gradient[t, b, k] + unread(loss[b]) + unread(d_gradient[t, b, k])
    lengths = (unwritten("b") for _ in output_shapes[2:])
    return output("t b k", lambda t, b, k: value(t, b, k)), unwritten("b l"), *lengths
