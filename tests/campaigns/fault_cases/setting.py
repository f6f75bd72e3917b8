"""What all faults are tried on: a small model over four workers, and how it would have gone on undisturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

import tofu

BATCH, FEATURES, CLASSES, WORKERS = 12, 17, 10, 4
SHAPES = {"data": (BATCH, FEATURES), "softmax_label": (BATCH,)}
ADAM = {"learning_rate": 0.01}
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong at one place.

    `run` gets an empty folder, says what happened, and raises AssertionError for what was lost.
    """

    kind: str
    place: str
    run: Callable[[Path], str]


def model() -> Any:
    """Two layers and a classifier."""
    net = mx.sym.Variable("data")
    for layer, width in enumerate((18, 14)):
        net = mx.sym.FullyConnected(net, num_hidden=width, name=f"fc{layer}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"act{layer}")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=CLASSES, name="out"), name="softmax")


def batch(number: int, size: int = BATCH) -> Any:
    """The batch of a step."""
    rng = np.random.RandomState(number)
    data, labels = rng.uniform(-1, 1, (size, FEATURES)), rng.randint(0, CLASSES, size)
    return mx.io.DataBatch([mx.nd.array(data, dtype="float64")], [mx.nd.array(labels, dtype="float64")])


def bind(module: Any, size: int = BATCH) -> Any:
    """Bound for batches of that size."""
    data, label = (mx.io.DataDesc(name, (size, *shape[1:]), "float64") for name, shape in SHAPES.items())
    module.bind([data], [label])
    return module


def begin(module: Any | None = None) -> Any:
    """A module with seeded parameters and Adam; over four workers if none is given."""
    module = bind(module or tofu.mod.Module(model(), ngpus=WORKERS))
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params=ADAM)
    return module


def step(module: Any, number: int) -> None:
    """One training step."""
    module.forward_backward(batch(number))
    module.update()


def train(module: Any, first: int, last: int) -> Any:
    """The steps from `first` to before `last`."""
    for number in range(first, last):
        step(module, number)
    return module


def parameters(module: Any) -> Arrays:
    """Copies of all parameters."""
    return {name: value.asnumpy() for group in module.get_params() for name, value in group.items()}


@cache
def undisturbed(steps: int) -> Arrays:
    """The parameters after so many steps in which nothing went wrong."""
    return parameters(train(begin(), 0, steps))


def assert_same(found: Arrays, expected: Arrays) -> None:
    """Equal to the last bit, NaN included."""
    assert found.keys() == expected.keys(), f"{sorted(found)} instead of {sorted(expected)}"
    for name, value in expected.items():
        assert np.array_equal(found[name], value, equal_nan=True), f"{name} is not what it was"


def goes_on(module: Any, done: int) -> None:
    """After `done` steps the module trains as if nothing had gone wrong."""
    assert_same(parameters(module), undisturbed(done))
    assert_same(parameters(train(module, done, done + 2)), undisturbed(done + 2))


@contextmanager
def refusal(
    words: str, kinds: type[BaseException] | tuple[type[BaseException], ...] = tofu.TofuError
) -> Iterator[list[str]]:
    """An error of these kinds has to be raised inside, with these words; yields what it said."""
    said: list[str] = []
    try:
        yield said
    except kinds as error:
        text = " ".join(str(error).split())
        assert words in text, f"the error does not say {words!r}: {text}"
        said.append(f"{type(error).__name__}: {text[:90]}")
        return
    raise AssertionError("nothing was raised")
