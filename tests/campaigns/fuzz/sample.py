"""A random model with its numbers, and the model while it grows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

import mxnet as mx
import numpy as np

from tofu.verification.comparison import Relation

Shape = tuple[int, ...]
DOUBLE = "float64"
TOLERANCE = 1e-11
LARGEST = 20_000  # cells of a tensor
FIXED = "fixed"  # an input of this name is the same in each step
LABEL = "label"  # on one device, the gradient by an input of this name is whatever its array held
REQUESTS = ("write", "write", "write", "write", "add", "null")


@dataclass(frozen=True)
class Sample:
    """A symbol, the shapes of its inputs (of the other variables the symbol knows them), values of its arguments and states, what is asked
    of the gradients of those that have one ("write", "add" or "null"), and a gradient of each output.

    `tolerance` is how far a number may be off, relative to the largest of its tensor. `relations`: by the names of operators that draw
    numbers, what must hold between these and the operator's inputs.
    """

    symbol: mx.sym.Symbol
    shapes: Mapping[str, Shape]
    values: Mapping[str, np.ndarray]
    requests: Mapping[str, str]
    head_gradients: tuple[np.ndarray, ...]
    tolerance: float = TOLERANCE
    relations: Mapping[str, Relation] = field(default_factory=dict)


class Growth:
    """A model while it grows: its tensors so far, the latest last, and what its inputs are. All of it is in double precision.

    Numbers are multiples of 2**-bits: with few bits, sums of products are exact in whatever order they are taken.
    """

    def __init__(self, seed: int, bits: int = 20) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.bits = bits
        self.tensors: list[tuple[mx.sym.Symbol, Shape]] = []
        self.shapes: dict[str, Shape] = {}
        self.given: dict[str, np.ndarray] = {}
        self.leaves: list[mx.sym.Symbol] = []  # outputs that nothing is computed of
        self.relations: dict[str, Relation] = {}
        self.tolerance = TOLERANCE
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def parameter(self, *shape: int, kind: str = "weight") -> mx.sym.Symbol:
        return mx.sym.Variable(f"{self.name('v')}_{kind}", shape=shape, dtype=DOUBLE)

    def data(self, *shape: int) -> mx.sym.Symbol:
        name = self.name("data")
        self.shapes[name] = shape
        return mx.sym.Variable(name, dtype=DOUBLE)

    def labels(self, classes: int, *shape: int) -> mx.sym.Symbol:
        name = self.name("label")
        self.shapes[name] = shape
        self.given[name] = np.random.RandomState(self.count).randint(0, classes, shape).astype(DOUBLE)
        return mx.sym.Variable(name, dtype=DOUBLE)

    def latest(self) -> tuple[mx.sym.Symbol, Shape]:
        """One of the last three tensors, most of the time."""
        return self.rng.choice(self.tensors[-3:] if self.rng.random() < 0.8 else self.tensors)

    def add(self, made: mx.sym.Symbol) -> None:
        """What a layer has made, unless it became too large."""
        names = made.list_arguments()
        _, shapes, _ = made.infer_shape(**{name: shape for name, shape in self.shapes.items() if name in names})
        self.tensors += [(o, shape) for o, shape in zip(made, shapes, strict=True) if 0 < prod(shape) <= LARGEST]

    def others(self, fits: Callable[[Shape], bool]) -> list[mx.sym.Symbol]:
        return [symbol for symbol, shape in self.tensors if fits(shape)]

    def finish(self, symbol: mx.sym.Symbol) -> Sample:
        """The model with random values, requests and gradients of its outputs."""
        symbol = mx.sym.Group(_distinct([*symbol, *self.leaves]))
        names = symbol.list_arguments()
        shapes = {name: shape for name, shape in self.shapes.items() if name in names}
        found = infer(symbol, shapes)
        draw = np.random.RandomState(self.seed)
        values = {
            name: self.given[name] if name in self.given else self._draw(draw, name, shape)
            for name, shape in found.items()
        }
        requests = {name: self.rng.choice(REQUESTS) for name in names if not name.startswith(("given", LABEL))}
        heads = draw_heads(symbol, shapes, lambda shape: round_to(draw.uniform(-1, 1, shape), self.bits))
        return Sample(symbol, shapes, values, requests, heads, self.tolerance, self.relations)

    def _draw(self, draw: np.random.RandomState, name: str, shape: Shape) -> np.ndarray:
        """Weights have variance 1 / fan-in where they have bits for it; scales and variances lie around 1."""
        if name.endswith(("gamma", "var")):
            return round_to(draw.uniform(0.5, 1.5, shape), self.bits)
        bound = np.sqrt(3 / np.prod(shape[1:])) if name.endswith("weight") else 0.5
        return round_to(draw.uniform(-1, 1, shape) * max(bound, 2.0 ** (1 - self.bits)), self.bits)


def round_to(values: np.ndarray, bits: int) -> np.ndarray:
    """The nearest multiples of 2**-bits; none of them zero, since a product with zero hides what it is multiplied with."""
    steps = np.round(np.asarray(values) * 2.0**bits)
    return np.where(steps == 0, 1.0, steps) / 2.0**bits


def infer(symbol: mx.sym.Symbol, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Name -> shape of all arguments and states."""
    arguments, _, states = symbol.infer_shape(**shapes)
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    return dict(zip(names, (*arguments, *states), strict=True))


def draw_heads(
    symbol: mx.sym.Symbol, shapes: Mapping[str, Shape], draw: Callable[[Shape], np.ndarray]
) -> tuple[np.ndarray, ...]:
    """A gradient of each output, in the output's type."""
    _, outputs, _ = symbol.infer_shape(**shapes)
    _, types, _ = symbol.infer_type()
    return tuple(draw(shape).astype(dtype) for shape, dtype in zip(outputs, types, strict=True))


def _distinct(given: Iterable[mx.sym.Symbol]) -> list[mx.sym.Symbol]:
    """The outputs; MXNet forgets a head gradient where a tensor is an output twice."""
    seen: set[tuple[str, str]] = set()
    outputs = []
    for output in given:
        key = output.name, output.list_outputs()[0]
        outputs.append(mx.sym.identity(output) if key in seen else output)
        seen.add(key)
    return outputs
