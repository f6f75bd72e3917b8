"""Tools to replace an operator by several of MXNet's own operators.

The dimensions of every tensor have names, such as "b c s0 s1". Dimensions of equal name are split together. Three kinds
of dimensions have marks instead of names. `ONE` has extent 1, `UNNAMED` is never split, and `MERGED` merges several
dimensions of an input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Parts

ONE, UNNAMED, MERGED = "1", "_", "-"


@dataclass(frozen=True)
class ComposedValue:
    """A tensor with names for its dimensions. `position` is its number in the graph."""

    position: int
    names: tuple[str, ...]


Values = Sequence[ComposedValue]


@dataclass
class Composition:
    """Builder of the operators (`parts`) that replace one operator.

    Tensors between these operators have the type `dtype`.
    """

    parts: Parts
    dtype: str
    extents: dict[str, int] = field(default_factory=lambda: {ONE: 1})

    def read(self, slot: int, names: str) -> ComposedValue:
        """Return input number `slot` of the replaced operator. Its dimensions get `names`, such as "b c"."""
        dimensions = tuple(names.split())
        for name, extent in zip(dimensions, self.parts.shape(slot), strict=True):
            self.extents.setdefault(name, extent)
        return ComposedValue(self.parts.whole.inputs[slot], dimensions)

    def add(self, name: str, op: str, inputs: Values, names: Sequence[str], **attributes: object) -> ComposedValue:
        """Add an MXNet operator `op`, such as "sum". Return its output, whose dimensions get `names`."""
        output = ComposedValue(self.parts.inner_tensor(name, self.shape(names), self.dtype), tuple(names))
        self.parts.inner_operator(name, op, **_describe_operator(attributes, inputs, output))
        return output

    def set_output(
        self, slot: int, value: ComposedValue, names: str, op: str = "Reshape", **attributes: object
    ) -> None:
        """Add an operator that computes output number `slot` of the replaced operator from `value`."""
        output = ComposedValue(self.parts.whole.outputs[slot], tuple(names.split()))
        attributes = attributes if op != "Reshape" else {"shape": self.parts.output_shape(slot)}
        self.parts.inner_operator(f"output{slot}", op, **_describe_operator(attributes, (value,), output))

    def finish(self, op: str, inputs: Values, names: str, slot: int = 0, **attributes: object) -> None:
        """Add the last operator. It computes output number `slot` of the replaced operator."""
        output = ComposedValue(self.parts.whole.outputs[slot], tuple(names.split()))
        self.parts.last_operator(op, **_describe_operator(attributes, inputs, output))

    def reshape(self, name: str, value: ComposedValue, names: Sequence[str]) -> ComposedValue:
        """Return `value` reshaped to dimensions with these names."""
        return self.add(name, "Reshape", (value,), names, shape=self.shape(names))

    def sum(self, name: str, value: ComposedValue, reduced: Sequence[str]) -> ComposedValue:
        """Return the sum over the dimensions in `reduced`, which stay with extent 1."""
        axes = tuple(d for d, dimension in enumerate(value.names) if dimension in reduced)
        names = [ONE if dimension in reduced else dimension for dimension in value.names]
        return self.add(name, "sum", (value,), names, axis=axes, keepdims=True) if axes else value

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the extents of the dimensions with these names."""
        return tuple(self.extents[name] for name in names)


def round_single(text: str) -> float:
    """Return the number in `text`, rounded to single precision."""
    return float(np.float32(text))


def _describe_operator(attributes: Mapping[str, object], inputs: Values, output: ComposedValue) -> dict[str, Any]:
    marks = (ONE, UNNAMED, MERGED)
    return {
        "attributes": {name: str(value) for name, value in attributes.items()},
        "inputs": tuple(value.position for value in inputs),
        "outputs": (output.position,),
        "names": tuple(tuple("" if name in marks else name for name in value.names) for value in (*inputs, output)),
    }


SUMMED_TYPES = ("float32", "float64")
"""Types whose sums are exact enough. MXNet's sum of float16 is less precise than the replaced operators."""


@dataclass(frozen=True)
class Statistics:
    """Mean, deviation from the mean, and variance of a tensor.

    In mean and variance, reduced dimensions have extent 1.
    """

    mean: ComposedValue
    deviation: ComposedValue  # the only one whose reduced dimensions keep their extent
    variance: ComposedValue


def has_exact_sums(operator: Operator, inputs: Inputs) -> bool:
    """Return True if all inputs are float32, or all are float64."""
    return all(tensor.dtype == inputs[0].dtype for tensor in inputs) and inputs[0].dtype in SUMMED_TYPES


def compute_statistics(
    composition: Composition, data: ComposedValue, reduced: Sequence[str], ddof: int = 0
) -> Statistics:
    """Return mean, deviation and variance of `data` over the dimensions in `reduced`.

    The variance is the sum of squared deviations divided by (number of elements - `ddof`).
    """
    count = prod(composition.shape(reduced))
    total = composition.sum("total", data, reduced)
    mean = composition.add("mean", "_div_scalar", (total,), total.names, scalar=count)
    deviation = composition.add("deviation", "broadcast_sub", (data, mean), data.names)
    squares = composition.sum("squares", composition.add("square", "square", (deviation,), data.names), reduced)
    variance = composition.add("variance", "_div_scalar", (squares,), total.names, scalar=count - ddof)
    return Statistics(mean, deviation, variance)
