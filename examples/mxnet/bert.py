"""Train BERT of GluonNLP to fill in masked words, in sentences of several lengths. One line partitions it.

pip install gluonnlp==0.10.0
python examples/mxnet/bert.py
"""

import sys

import numpy as np
from side_by_side import compare

import tofu
import mxnet as mx
from mxnet import autograd, gluon

try:
    from gluonnlp.model.bert import BERTEncoder, BERTModel
except ImportError as error:
    sys.exit(f"This example needs GluonNLP ({error}): pip install gluonnlp==0.10.0")

BATCH, LENGTH, MASKED = 8, 32, 4
WORDS, MASK, PADDING = 200, 1, 0
UNITS = 64


def build():
    """Return two encoder layers with a masked-LM head."""
    encoder = BERTEncoder(num_layers=2, units=UNITS, hidden_size=4 * UNITS, max_length=LENGTH, num_heads=4, dropout=0.0)
    return BERTModel(encoder, WORDS, token_type_vocab_size=2, units=UNITS, embed_size=UNITS)


def draw_batch(draw):
    """Return counting sentences as (words, types, lengths, masked positions, masked words)."""
    lengths = draw.randint(LENGTH // 2, LENGTH + 1, BATCH)
    words = 2 + (draw.randint(0, 20, (BATCH, 1)) + np.arange(LENGTH)) % (WORDS - 2)
    words[np.arange(LENGTH) >= lengths[:, None]] = PADDING
    positions = np.array([np.sort(draw.choice(length, MASKED, replace=False)) for length in lengths])
    rows = np.arange(BATCH)[:, None]
    masked = words[rows, positions]
    words[rows, positions] = MASK
    types = np.zeros_like(words)
    return [mx.nd.array(array, dtype="float32") for array in (words, types, lengths, positions, masked)]


def train(workers, steps):
    """Return the loss of each step, and the plan."""
    mx.random.seed(1)
    draw = np.random.RandomState(0)
    net = build()
    net.initialize(mx.init.Normal(0.02))
    net.hybridize()
    net = tofu.gluon.partition(net, ngpus=workers)  # the only new line
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    measure = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(steps):
        words, types, lengths, positions, masked = draw_batch(draw)
        with autograd.record():
            *_, named = net(words, types, lengths, positions)
            loss = measure(named, masked)
        loss.backward()
        trainer.step(BATCH, ignore_stale_grad=True)  # this loss does not use the sentence classifier
        losses.append(loss.mean().asscalar())
    return losses, net.plan if workers > 1 else None


if __name__ == "__main__":
    compare(train, __doc__)
