"""Train GluonCV's object detector SSD, over a small network, to find bright squares. One line partitions it.

pip install --no-deps gluoncv==0.10.5.post0
pip install opencv-python-headless yacs autocfg portalocker tqdm pyyaml pillow matplotlib scipy
python examples/mxnet/detector.py
"""

import sys
import warnings

import numpy as np
from side_by_side import compare

import tofu
import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn

warnings.simplefilter("ignore")  # GluonCV uses removed names of NumPy
try:
    from gluoncv.loss import SSDMultiBoxLoss
    from gluoncv.model_zoo.ssd import SSD
    from gluoncv.model_zoo.ssd.target import SSDTargetGenerator
except ImportError as error:
    sys.exit(
        f"This example needs GluonCV ({error}): pip install --no-deps gluoncv==0.10.5.post0, then "
        "pip install opencv-python-headless yacs autocfg portalocker tqdm pyyaml pillow matplotlib scipy"
    )

BATCH, SIZE = 8, 64
CLASSES = ("small", "large")


def stage(channels):
    """Return two convolutions; the second halves the image."""
    block = nn.HybridSequential()
    for stride in (1, 2):
        block.add(nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    return block


def build():
    """Return SSD over a network of four stages, which finds boxes at two resolutions."""
    fine, coarse = nn.HybridSequential(), nn.HybridSequential()
    fine.add(stage(16), stage(32), stage(64))
    coarse.add(stage(128))

    class Features(nn.HybridBlock):
        """Feature maps of both resolutions."""

        def __init__(self):
            super().__init__()
            self.fine, self.coarse = fine, coarse

        def hybrid_forward(self, F, x):
            """`F` is mx.nd or mx.sym."""
            finer = self.fine(x)
            return [finer, self.coarse(finer)]

    ratios = [[1, 2, 0.5]] * 2
    return SSD(None, SIZE, lambda **_: Features(), None, [12, 24, 40], ratios, [8, 16], CLASSES)


def draw_batch(draw):
    """Return images with a bright square each, as (images, boxes, classes)."""
    images = 0.3 * draw.randn(BATCH, 3, SIZE, SIZE)
    classes = draw.randint(0, len(CLASSES), BATCH)
    boxes = np.zeros((BATCH, 1, 4))
    for image, label, box in zip(images, classes, boxes, strict=True):
        extent = (12, 24)[label]
        row, column = draw.randint(0, SIZE - extent, 2)
        image[:, row : row + extent, column : column + extent] += 1
        box[0] = column, row, column + extent, row + extent
    return mx.nd.array(images, dtype="float64"), mx.nd.array(boxes), mx.nd.array(classes.reshape(BATCH, 1, 1))


def train(workers, steps):
    """Return the loss of each step, and the plan."""
    mx.random.seed(1)
    draw = np.random.RandomState(0)
    net = build()
    net.cast("float64")  # batch normalization amplifies rounding in single precision
    net.initialize(mx.init.Xavier())
    net.hybridize()
    with autograd.train_mode():  # anchors only depend on the image size
        anchors = net(mx.nd.zeros((1, 3, SIZE, SIZE), dtype="float64"))[2].astype("float32")
    net = tofu.gluon.partition(net, ngpus=workers)  # the only new line
    find_targets = SSDTargetGenerator(negative_mining_ratio=-1)
    measure = SSDMultiBoxLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02, "momentum": 0.9})
    losses = []
    for _ in range(steps):
        images, boxes, classes = draw_batch(draw)
        with autograd.record():
            scores, offsets, _ = (
                array.astype("float32") for array in net(images)
            )  # GluonCV's loss needs single precision
            wanted = find_targets(anchors, scores, boxes, classes)
            total, _, _ = measure(scores, offsets, wanted[0], wanted[1])
            loss = mx.nd.add_n(*total)
        loss.backward()
        trainer.step(1)
        losses.append(loss.mean().asscalar())
    return losses, net.plan if workers > 1 else None


if __name__ == "__main__":
    compare(train, __doc__)
