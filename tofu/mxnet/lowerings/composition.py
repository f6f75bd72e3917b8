"""Operators written as several of MXNet's own, for lowerings that need no kernel of theirs.

The dimensions of every tensor are named, "b c s0 s1", by which the parts agree on what is split; one of extent 1 that others are spread
along has none (`ONE`), nor has one that is not split (`UNNAMED`), or that others are merged in (`MERGED`, in a tensor that is given).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tofu.lowering.parts import Parts

ONE, UNNAMED, MERGED = "1", "_", "-"


@dataclass(frozen=True)
class Value:
    """A tensor of a composition: its position in the graph, and how its dimensions are called."""

    position: int
    names: tuple[str, ...]


@dataclass
class Composition:
    """The parts of one operator, written in their order. All tensors between them are of one type."""

    parts: Parts
    dtype: str
    extents: dict[str, int] = field(default_factory=lambda: {ONE: 1})

    def read(self, slot: int, names: str) -> Value:
        """The operator's input `slot`."""
        named = tuple(names.split())
        for name, extent in zip(named, self.parts.shape(slot), strict=True):
            self.extents.setdefault(name, extent)
        return Value(self.parts.whole.inputs[slot], named)

    def add(self, name: str, op: str, inputs: Sequence[Value], names: Sequence[str], **attributes: object) -> Value:
        """The one output of an operator of MXNet, called `name` between the parts."""
        made = Value(self.parts.inner_tensor(name, self.shape(names), self.dtype), tuple(names))
        written, called = (made.position,), _called((*inputs, made))
        self.parts.inner_operator(name, op, _texts(attributes), _positions(inputs), written, names=called)
        return made

    def give(self, slot: int, value: Value, names: str, op: str = "Reshape", **attributes: object) -> None:
        """The operator's output `slot`, from a value: its cells, or what another operator makes of it."""
        output = Value(self.parts.whole.outputs[slot], tuple(names.split()))
        given = attributes if op != "Reshape" else {"shape": self.parts.output_shape(slot)}
        written, called = (output.position,), _called((value, output))
        self.parts.inner_operator(f"output{slot}", op, _texts(given), (value.position,), written, names=called)

    def finish(self, op: str, inputs: Sequence[Value], names: str, slot: int = 0, **attributes: object) -> None:
        """The last part, which makes the operator's output `slot`."""
        called = _called((*inputs, Value(-1, tuple(names.split()))))
        written = (self.parts.whole.outputs[slot],)
        self.parts.last_operator(op, _texts(attributes), _positions(inputs), outputs=written, names=called)

    def reshape(self, name: str, value: Value, names: Sequence[str]) -> Value:
        """The same cells under other dimensions."""
        return self.add(name, "Reshape", (value,), names, shape=self.shape(names))

    def sum(self, name: str, value: Value, over: Sequence[str]) -> Value:
        """The sum over the named dimensions, which stay with extent 1."""
        axes = tuple(d for d, one in enumerate(value.names) if one in over)
        names = [ONE if one in over else one for one in value.names]
        return self.add(name, "sum", (value,), names, axis=axes, keepdims=True) if axes else value

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """The extents of named dimensions."""
        return tuple(self.extents[name] for name in names)


def round_single(text: str) -> float:
    """A number of an attribute that MXNet holds in single precision."""
    return float(np.float32(text))


def _visible(names: Sequence[str]) -> tuple[str, ...]:
    return tuple("" if name in (ONE, UNNAMED, MERGED) else name for name in names)


def _called(values: Sequence[Value]) -> tuple[tuple[str, ...], ...]:
    return tuple(_visible(value.names) for value in values)


def _positions(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(value.position for value in values)


def _texts(attributes: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in attributes.items()}
