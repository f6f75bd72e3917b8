"""Lowerings of means, variances and L2 norms to sums by MXNet's own operators, to split the reduced dimensions."""

from __future__ import annotations

from math import prod
from typing import Any

from tdl_ops.mxnet.attributes import parse_attribute
from tdl_ops.mxnet.reduced import list_reduced
from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.composition import ONE, ComposedValue, Composition, are_summed, measure
from tofu.mxnet.lowerings.conventions import is_true


def _is_possible(operator: Operator, inputs: Inputs) -> bool:
    return are_summed(inputs) and operator.attributes.get("dtype", "None") in ("None", inputs[0].dtype)


def _has_squares(operator: Operator, inputs: Inputs) -> bool:
    """Return True for L2 norms. The stock kernel can split the others, sums of absolute values."""
    own = operator.attributes
    return are_summed(inputs) and own.get("ord", "2") == "2" and own.get("out_dtype", "None") == "None"


class _Reduction:
    """Names of the dimensions of a reduced tensor. They equal the index variables of the stock operator."""

    def __init__(self, parts: Parts, slot: int, axes: str) -> None:
        own, shape = parts.whole.attributes, parts.shape(slot)
        self.keepdims = is_true(own, "keepdims", False)
        self.axes = tuple(list_reduced(parse_attribute(own.get(axes, "None")), False, len(shape)))
        kept = [d for d in range(len(shape)) if d not in self.axes]
        is_gradient = parts.whole.op.startswith("_backward")  # a gradient's index variables are numbered by dimension
        names = {d: f"i{d if self.keepdims or is_gradient else n}" for n, d in enumerate(kept)}
        names |= {d: f"i{d}" if is_gradient else f"r{n}" for n, d in enumerate(self.axes)}
        self.over = [names[d] for d in self.axes]
        self.elements = [names[d] for d in range(len(shape))]
        self.lines = [ONE if d in self.axes else names[d] for d in range(len(shape))]
        self.kept = self.lines if self.keepdims else [names[d] for d in kept]
        self.steps = Composition(parts, parts.graph_tensors[parts.whole.inputs[slot]].dtype)
        self.data = self.steps.read(slot, " ".join(self.elements))

    def read_lines(self, slot: int, name: str) -> ComposedValue:
        names = self.kept or [ONE] * len(self.steps.parts.shape(slot))
        return self.steps.reshape(name, self.steps.read(slot, " ".join(names)), self.lines)

    def finish(self, value: ComposedValue, *others: ComposedValue) -> None:
        """Compute the operator's outputs, in order, from values with one number per line. Apply keepdims."""
        shape = self.steps.parts.output_shape(0)
        names = " ".join(self.kept or [ONE] * len(shape))
        op = "_copy" if self.keepdims else "_np_sum" if shape == () else "sum"
        attributes: dict[str, Any] = {} if self.keepdims else {"axis": self.axes}
        for slot, other in enumerate(others, 1):
            self.steps.give(slot, other, names, op, **attributes)
        self.steps.finish(op, (value,), names, **attributes)


def _expand_moments(parts: Parts) -> None:
    reduction = _Reduction(parts, 0, "axes")
    found = measure(reduction.steps, reduction.data, reduction.over)
    reduction.finish(found.mean, found.variance)


def _expand_moments_backward(parts: Parts) -> None:
    reduction = _Reduction(parts, 2, "axes")
    steps, lines, elements = reduction.steps, reduction.lines, reduction.elements
    count = prod(steps.shape(reduction.over))
    d_mean, d_variance, mean = (
        reduction.read_lines(n, name) for n, name in ((0, "d_mean"), (1, "d_variance"), (3, "mean"))
    )
    share = steps.add("share", "_div_scalar", (d_mean,), lines, scalar=count)
    slope = steps.add("slope", "_mul_scalar", (d_variance,), lines, scalar=2 / count)
    deviation = steps.add("deviation", "broadcast_sub", (reduction.data, mean), elements)
    spread = steps.add("spread", "broadcast_mul", (deviation, slope), elements)
    steps.finish("broadcast_add", (spread, share), " ".join(elements))


def _expand_variance(parts: Parts, is_root: bool) -> None:
    reduction = _Reduction(parts, 0, "axis")
    steps, lost = reduction.steps, int(parts.whole.attributes.get("ddof", "0"))
    found = measure(steps, reduction.data, reduction.over, lost)
    result = steps.add("std", "sqrt", (found.variance,), reduction.lines) if is_root else found.variance
    reduction.finish(result, found.mean)


def _expand_norm(parts: Parts) -> None:
    reduction = _Reduction(parts, 0, "axis")
    steps = reduction.steps
    square = steps.add("square", "square", (reduction.data,), reduction.elements)
    total = steps.sum("sum", square, reduction.over)
    reduction.finish(steps.add("root", "sqrt", (total,), reduction.lines))


LOWERINGS = {
    "moments": Lowering(_expand_moments, is_possible=_is_possible),
    "_backward_moments": Lowering(_expand_moments_backward, is_possible=_is_possible),
    "_npi_var": Lowering(lambda parts: _expand_variance(parts, is_root=False), is_possible=_is_possible),
    "_npi_std": Lowering(lambda parts: _expand_variance(parts, is_root=True), is_possible=_is_possible),
    "norm": Lowering(_expand_norm, is_possible=_has_squares),
}
