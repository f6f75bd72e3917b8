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
LARGEST = 20_000  # most elements of a tensor
FIXED = "fixed"  # inputs of this name are the same in each step
LABEL = "label"  # inputs of this name have no gradient
REQUESTS = ("write", "write", "write", "write", "add", "null")


@dataclass(frozen=True)
class FuzzSample:
    """A symbol with the shapes of its inputs, values of all arguments and states, requests of gradients, and head gradients.

    `tolerance` is the allowed error, relative to the largest number of a tensor. `relations` are the conditions that random numbers must
    satisfy, by operator name.
    """

    symbol: mx.sym.Symbol
    shapes: Mapping[str, Shape]
    values: Mapping[str, np.ndarray]
    requests: Mapping[str, str]
    head_gradients: tuple[np.ndarray, ...]
    tolerance: float = TOLERANCE
    relations: Mapping[str, Relation] = field(default_factory=dict)


class Growth:
    """A model under construction, in double precision: its tensors so far, the latest last, and its inputs.

    Numbers are multiples of 2**-bits. With few bits, sums of products are exact in any order.
    """

    def __init__(self, seed: int, bits: int = 20) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.bits = bits
        self.tensors: list[tuple[mx.sym.Symbol, Shape]] = []
        self.shapes: dict[str, Shape] = {}
        self.given: dict[str, np.ndarray] = {}
        self.leaves: list[mx.sym.Symbol] = []  # outputs that no operator reads
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
        return self.rng.choice(self.tensors[-3:] if self.rng.random() < 0.8 else self.tensors)

    def add(self, made: mx.sym.Symbol) -> None:
        names = made.list_arguments()
        _, shapes, _ = made.infer_shape(**{name: shape for name, shape in self.shapes.items() if name in names})
        self.tensors += [(o, shape) for o, shape in zip(made, shapes, strict=True) if 0 < prod(shape) <= LARGEST]

    def others(self, fits: Callable[[Shape], bool]) -> list[mx.sym.Symbol]:
        return [symbol for symbol, shape in self.tensors if fits(shape)]

    def finish(self, symbol: mx.sym.Symbol) -> FuzzSample:
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
        return FuzzSample(symbol, shapes, values, requests, heads, self.tolerance, self.relations)

    def _draw(self, draw: np.random.RandomState, name: str, shape: Shape) -> np.ndarray:
        """Weights have variance 1 / fan-in if their bits allow it; scales and variances are around 1."""
        if name.endswith(("gamma", "var")):
            return round_to(draw.uniform(0.5, 1.5, shape), self.bits)
        bound = np.sqrt(3 / np.prod(shape[1:])) if name.endswith("weight") else 0.5
        return round_to(draw.uniform(-1, 1, shape) * max(bound, 2.0 ** (1 - self.bits)), self.bits)


def round_to(values: np.ndarray, bits: int) -> np.ndarray:
    """Return the nearest nonzero multiples of 2**-bits. A factor of zero would hide errors of the other factor."""
    steps = np.round(np.asarray(values) * 2.0**bits)
    return np.where(steps == 0, 1.0, steps) / 2.0**bits


def infer(symbol: mx.sym.Symbol, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    arguments, _, states = symbol.infer_shape(**shapes)
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    return dict(zip(names, (*arguments, *states), strict=True))


def draw_heads(
    symbol: mx.sym.Symbol, shapes: Mapping[str, Shape], draw: Callable[[Shape], np.ndarray]
) -> tuple[np.ndarray, ...]:
    _, outputs, _ = symbol.infer_shape(**shapes)
    _, types, _ = symbol.infer_type()
    return tuple(draw(shape).astype(dtype) for shape, dtype in zip(outputs, types, strict=True))


def _distinct(given: Iterable[mx.sym.Symbol]) -> list[mx.sym.Symbol]:
    """Copy each repeated output, because MXNet would lose its head gradient."""
    seen: set[tuple[str, str]] = set()
    outputs = []
    for output in given:
        key = output.name, output.list_outputs()[0]
        outputs.append(mx.sym.identity(output) if key in seen else output)
        seen.add(key)
    return outputs
