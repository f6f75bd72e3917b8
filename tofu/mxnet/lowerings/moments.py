"""Replace means, variances and L2 norms by sums, so that the reduced dimensions can be split."""

from __future__ import annotations

from math import prod
from typing import Any

from tdl_ops.mxnet.attributes import is_true, parse_attribute
from tdl_ops.mxnet.reduced import list_reduced
from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.composition import ONE, ComposedValue, Composition, compute_statistics, has_exact_sums
from tofu.mxnet.lowerings.conventions import TYPES


def _is_possible(operator: Operator, inputs: Inputs) -> bool:
    dtype, axis = (operator.attributes.get(name, "None") for name in ("dtype", "axis"))
    return has_exact_sums(operator, inputs) and dtype in ("None", inputs[0].dtype) and axis != "()"


def _is_mean_possible(operator: Operator, inputs: Inputs) -> bool:
    dtype, axis = (operator.attributes.get(name, "None") for name in ("dtype", "axis"))
    return inputs[0].dtype in TYPES and dtype == "None" and axis != "()"


def _has_squares(operator: Operator, inputs: Inputs) -> bool:
    has_own_type = operator.attributes.get("out_dtype", "None") != "None"
    return has_exact_sums(operator, inputs) and operator.attributes.get("ord", "2") == "2" and not has_own_type


class _Reduction:
    def __init__(self, parts: Parts, shape: tuple[int, ...], axes_attribute: str = "axis") -> None:
        attributes = parts.whole.attributes
        self.keepdims = is_true(attributes, "keepdims")
        axes = parse_attribute(attributes.get(axes_attribute, "None"))
        self.axes = tuple(list_reduced(axes, is_true(attributes, "exclude"), len(shape)))
        unreduced = [d for d in range(len(shape)) if d not in self.axes]
        is_gradient = parts.whole.op.startswith("_backward")  # a gradient's index variables are numbered by dimension
        names = {d: f"i{d if self.keepdims or is_gradient else n}" for n, d in enumerate(unreduced)}
        names |= {d: f"i{d}" if is_gradient else f"r{n}" for n, d in enumerate(self.axes)}
        # Names of dimensions. For a mean over dimension 1 of 3: reduced r0, elements i0 r0 i1, lines i0 1 i1, outputs i0 i1.
        self.reduced = [names[d] for d in self.axes]
        self.elements = [names[d] for d in range(len(shape))]
        self.lines = [ONE if d in self.axes else names[d] for d in range(len(shape))]
        self.outputs = self.lines if self.keepdims else [names[d] for d in unreduced]
        extents = {ONE: 1, **dict(zip(self.elements, shape, strict=True))}
        self.composition = Composition(parts, parts.graph_tensors[parts.whole.inputs[0]].dtype, extents)
        self.count = prod(self.composition.shape(self.reduced))

    def read_elements(self, slot: int) -> ComposedValue:
        return self.composition.read(slot, " ".join(self.elements))

    def read_lines(self, slot: int, name: str) -> ComposedValue:
        names = self.outputs or [ONE] * len(self.composition.parts.shape(slot))
        return self.composition.reshape(name, self.composition.read(slot, " ".join(names)), self.lines)

    def finish(self, first_value: ComposedValue, *other_values: ComposedValue) -> None:
        shape = self.composition.parts.output_shape(0)
        names = " ".join(self.outputs or [ONE] * len(shape))
        op = "_copy" if self.keepdims else "_np_sum" if shape == () else "sum"
        attributes: dict[str, Any] = {} if self.keepdims else {"axis": self.axes}
        for slot, value in enumerate(other_values, 1):
            self.composition.set_output(slot, value, names, op, **attributes)
        self.composition.finish(op, (first_value,), names, **attributes)


def _expand_mean(parts: Parts) -> None:
    reduction = _Reduction(parts, parts.shape(0))
    total = reduction.composition.sum("total", reduction.read_elements(0), reduction.reduced)
    reduction.finish(
        reduction.composition.add("mean", "_div_scalar", (total,), reduction.lines, scalar=reduction.count)
    )


def _expand_mean_backward(parts: Parts) -> None:
    shape = parts.output_shape(0)
    reduction = _Reduction(parts, shape)
    d_mean, lines = reduction.read_lines(0, "d_mean"), reduction.lines
    share = reduction.composition.add("share", "_div_scalar", (d_mean,), lines, scalar=reduction.count)
    reduction.composition.finish("broadcast_to", (share,), " ".join(reduction.elements), shape=shape)


def _expand_moments(parts: Parts) -> None:
    reduction = _Reduction(parts, parts.shape(0), "axes")
    statistics = compute_statistics(reduction.composition, reduction.read_elements(0), reduction.reduced)
    reduction.finish(statistics.mean, statistics.variance)


def _expand_moments_backward(parts: Parts) -> None:
    reduction = _Reduction(parts, parts.shape(2), "axes")
    composition, lines, elements = reduction.composition, reduction.lines, reduction.elements
    d_mean, d_variance, mean = (
        reduction.read_lines(n, name) for n, name in ((0, "d_mean"), (1, "d_variance"), (3, "mean"))
    )
    share = composition.add("share", "_div_scalar", (d_mean,), lines, scalar=reduction.count)
    slope = composition.add("slope", "_mul_scalar", (d_variance,), lines, scalar=2 / reduction.count)
    deviation = composition.add("deviation", "broadcast_sub", (reduction.read_elements(2), mean), elements)
    spread = composition.add("spread", "broadcast_mul", (deviation, slope), elements)
    composition.finish("broadcast_add", (spread, share), " ".join(elements))


def _expand_variance(parts: Parts) -> None:
    reduction = _Reduction(parts, parts.shape(0))
    composition, ddof = reduction.composition, int(parts.whole.attributes.get("ddof", "0"))
    statistics = compute_statistics(composition, reduction.read_elements(0), reduction.reduced, ddof)
    result = statistics.variance
    if parts.whole.op == "_npi_std":
        result = composition.add("std", "sqrt", (result,), reduction.lines)
    reduction.finish(result, statistics.mean)


def _expand_norm(parts: Parts) -> None:
    # Dividing by the largest element first keeps squares from overflow and underflow.
    reduction = _Reduction(parts, parts.shape(0))
    composition, elements, lines = reduction.composition, reduction.elements, reduction.lines
    data = reduction.read_elements(0)
    magnitude = composition.add("magnitude", "abs", (data,), elements)
    scale = composition.add("largest", "max", (magnitude,), lines, axis=reduction.axes, keepdims=True)
    most = 1e30 if composition.dtype == "float32" else 1e250  # the scale must be neither zero nor infinite
    for op, scalar in (("_maximum_scalar", 1 / most), ("_minimum_scalar", most)):
        scale = composition.add(op.strip("_"), op, (scale,), lines, scalar=scalar)
    quotient = composition.add("quotient", "broadcast_div", (data, scale), elements)
    square = composition.add("square", "square", (quotient,), elements)
    total = composition.sum("sum", square, reduction.reduced)
    root = composition.add("root", "sqrt", (total,), lines)
    reduction.finish(composition.add("norm", "elemwise_mul", (root, scale), lines))


LOWERINGS = {
    **dict.fromkeys(("mean", "_npi_mean"), Lowering(_expand_mean, is_possible=_is_mean_possible)),
    **dict.fromkeys(
        ("_backward_mean", "_backward_np_mean"), Lowering(_expand_mean_backward, is_possible=_is_mean_possible)
    ),
    "moments": Lowering(_expand_moments, is_possible=_is_possible),
    "_backward_moments": Lowering(_expand_moments_backward, is_possible=_is_possible),
    "_npi_var": Lowering(_expand_variance, is_possible=_is_possible),
    "_npi_std": Lowering(_expand_variance, is_possible=_is_possible),
    "norm": Lowering(_expand_norm, is_possible=_has_squares),
}
