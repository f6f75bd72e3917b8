"""Data, model and training script of the demo, written for one device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mxnet as mx
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH_SIZE = 64
TEST_SAMPLES = 360
CLASSES = 10
LEARNING_RATE = 0.02
MOMENTUM = 0.9
SEED = 7


@dataclass(frozen=True)
class Digits:
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load(train_samples: int | None = None) -> Digits:
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    train, test, train_classes, test_classes = train_test_split(
        images, labels.astype(np.float32), test_size=TEST_SAMPLES, random_state=SEED, stratify=labels
    )
    return Digits(train[:train_samples], train_classes[:train_samples], test, test_classes)


def input_shapes(batch_size: int = BATCH_SIZE) -> dict[str, Any]:
    return {"data": (batch_size, 1, 8, 8), "softmax_label": (batch_size,)}


def residual_network(filters: int = 32) -> Any:
    """Return a residual CNN without normalization: a stem, three stages of one block, two dense layers.

    Early layers have large activations and small weights, late layers the reverse: no one way of splitting suits all.
    """
    net = _convolve(mx.sym.Variable("data"), filters, "stem")
    for stage in range(3):
        net = _block(net, filters << stage, f"stage{stage + 1}", stride=2 if stage else 1)
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=8 * filters, name="dense1")
    net = mx.sym.Activation(net, act_type="relu", name="dense1_relu")
    net = mx.sym.FullyConnected(net, num_hidden=CLASSES, name="dense2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def _block(net: Any, filters: int, name: str, stride: int) -> Any:
    body = mx.sym.Activation(net, act_type="relu", name=f"{name}_relu1")
    body = _convolve(body, filters, f"{name}_conv1", stride)
    body = mx.sym.Activation(body, act_type="relu", name=f"{name}_relu2")
    body = _convolve(body, filters, f"{name}_conv2")
    shortcut = net if stride == 1 else _convolve(net, filters, f"{name}_project", stride, kernel=1)
    return mx.sym.elemwise_add(shortcut, body, name=f"{name}_sum")


def _convolve(net: Any, filters: int, name: str, stride: int = 1, kernel: int = 3) -> Any:
    return mx.sym.Convolution(
        net,
        num_filter=filters,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        name=name,
    )


@dataclass(frozen=True)
class TrainingStep:
    loss: float
    seconds: float


@dataclass(frozen=True)
class Epoch:
    accuracy: float


def train(symbol: Any, digits: Digits, epochs: int) -> Iterator[TrainingStep | Epoch]:
    """Nothing in here knows of workers: `symbol` is the model for one device, or what `tofu.partition` made of it."""
    mx.random.seed(SEED)
    shuffle = np.random.RandomState(SEED)
    module = mx.mod.Module(symbol, context=mx.cpu())
    data, label = input_shapes().items()
    module.bind(data_shapes=[data], label_shapes=[label])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": LEARNING_RATE, "momentum": MOMENTUM})
    for _ in range(epochs):
        order = shuffle.permutation(len(digits.train_images))
        for start in range(0, len(order) - BATCH_SIZE + 1, BATCH_SIZE):
            chosen = order[start : start + BATCH_SIZE]
            yield _run_step(module, digits.train_images[chosen], digits.train_labels[chosen])
        yield Epoch(_score(module, digits))


def _run_step(module: Any, images: np.ndarray, labels: np.ndarray) -> TrainingStep:
    started = time.perf_counter()
    module.forward_backward(mx.io.DataBatch([mx.nd.array(images)], [mx.nd.array(labels)]))
    module.update()
    probabilities = module.get_outputs()[0].asnumpy()
    mx.nd.waitall()
    picked = probabilities[np.arange(len(labels)), labels.astype(int)]
    return TrainingStep(float(-np.log(np.maximum(picked, 1e-12)).mean()), time.perf_counter() - started)


def _score(module: Any, digits: Digits) -> float:
    test = mx.io.NDArrayIter(digits.test_images, batch_size=BATCH_SIZE)  # predict() drops what fills up the last batch
    return float((module.predict(test).asnumpy().argmax(1) == digits.test_labels).mean())
