"""Train a recurrent language model on lines of two lengths, with MXNet's BucketingModule. The text is a Python module.

python examples/mxnet/language_model.py
"""

import argparse as text_of
import inspect

import numpy as np
from side_by_side import compare

import tofu
import mxnet as mx

BATCH, HIDDEN, LENGTHS = 16, 64, (8, 16)


def read_batches(steps):
    """Yield lines of characters with the next characters, alternating between the two lengths."""
    codes = np.frombuffer(inspect.getsource(text_of).encode(), np.uint8) % 128
    draw = np.random.RandomState(0)
    for step in range(steps):
        length = LENGTHS[step % 2]
        starts = draw.randint(0, len(codes) - length - 1, BATCH)
        lines = np.stack([codes[start : start + length + 1] for start in starts]).astype("float32")
        yield mx.io.DataBatch(
            [mx.nd.array(lines[:, :-1])],
            [mx.nd.array(lines[:, 1:])],
            bucket_key=length,
            provide_data=[("data", (BATCH, length))],
            provide_label=[("softmax_label", (BATCH, length))],
        )


def build(length):
    """Return an LSTM unrolled over a line."""
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    embedded = mx.sym.Embedding(data, input_dim=128, output_dim=HIDDEN, name="embed")
    cell = mx.rnn.LSTMCell(HIDDEN, prefix="lstm_")
    outputs, _ = cell.unroll(length, inputs=embedded, merge_outputs=True)
    scores = mx.sym.FullyConnected(mx.sym.reshape(outputs, shape=(-1, HIDDEN)), num_hidden=128, name="out")
    return (
        mx.sym.SoftmaxOutput(scores, mx.sym.reshape(label, shape=(-1,)), name="softmax"),
        ("data",),
        ("softmax_label",),
    )


def train(workers, steps):
    """Return the loss of each step, and the last plan."""
    mx.random.seed(1)
    if workers > 1:
        module = tofu.mod.BucketingModule(build, default_bucket_key=max(LENGTHS), ngpus=workers)  # the only new line
    else:
        module = mx.mod.BucketingModule(build, default_bucket_key=max(LENGTHS), context=mx.cpu())
    module.bind([("data", (BATCH, max(LENGTHS)))], [("softmax_label", (BATCH, max(LENGTHS)))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    losses = []
    for batch in read_batches(steps):
        module.forward_backward(batch)
        module.update()
        metric = mx.metric.CrossEntropy()
        metric.update([batch.label[0].reshape((-1,))], module.get_outputs())
        losses.append(metric.get()[1])
    return losses, module.plan if workers > 1 else None


if __name__ == "__main__":
    compare(train, __doc__)
