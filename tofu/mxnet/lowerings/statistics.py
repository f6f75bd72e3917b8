"""Statistics of lines of cells, in compositions: a mean and the squares around it, two passes, exact whatever the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tofu.lowering.parts import Inputs
from tofu.mxnet.lowerings.composition import Composition, Value

TYPES = ("float32", "float64")
"""Half precision is left to the stock kernels, which add it up in more digits than MXNet's sum does."""


@dataclass(frozen=True)
class Statistics:
    """Of the lines of cells along some dimensions: those stay in `mean` and `variance` with extent 1."""

    mean: Value
    deviation: Value
    variance: Value


def are_summed(inputs: Inputs) -> bool:
    """Whether compositions add up numbers of the inputs' type."""
    return all(tensor.dtype == inputs[0].dtype for tensor in inputs) and inputs[0].dtype in TYPES


def measure(steps: Composition, data: Value, over: Sequence[str], lost: int = 0) -> Statistics:
    """The statistics of `data` over the named dimensions; squares are divided by the number of cells less `lost`."""
    count = prod(steps.shape(over))
    total = steps.sum("total", data, over)
    mean = steps.add("mean", "_div_scalar", (total,), total.names, scalar=count)
    deviation = steps.add("deviation", "broadcast_sub", (data, mean), data.names)
    squares = steps.sum("squares", steps.add("square", "square", (deviation,), data.names), over)
    variance = steps.add("variance", "_div_scalar", (squares,), total.names, scalar=count - lost)
    return Statistics(mean, deviation, variance)
