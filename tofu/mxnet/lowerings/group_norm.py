"""Lowerings of InstanceNorm, GroupNorm and L2Normalization to MXNet's operators, to split the normalised dimensions.

InstanceNorm is a GroupNorm with groups of one channel. Grouped data gets a dimension `g` for the groups, before `c` for
the channels in a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.lowerings.composition import (
    MERGED,
    ONE,
    UNNAMED,
    ComposedValue,
    Composition,
    are_summed,
    measure,
    round_single,
)


@dataclass(frozen=True)
class _Layout:
    """Names of dimensions: of the data, its elements, one number per line, the parameters, and those reduced (`over`)."""

    data: str
    elements: tuple[str, ...]
    lines: tuple[str, ...]
    parameter: str
    over: tuple[str, ...]

    @property
    def spread(self) -> tuple[str, ...]:
        return tuple(name if name == self.parameter else ONE for name in self.elements)


def _is_possible(operator: Operator, inputs: Inputs) -> bool:
    return are_summed(inputs)


def _start(parts: Parts, slot: int) -> tuple[Composition, _Layout]:
    """Return a composition, and the names of the dimensions of the data, which is the operator's input `slot`."""
    shape = parts.shape(slot)
    space = tuple(f"s{d}" for d in range(len(shape) - 2))
    steps = Composition(parts, parts.graph_tensors[parts.whole.inputs[slot]].dtype)
    steps.extents |= dict(zip(space, shape[2:], strict=True))
    if "InstanceNorm" in parts.whole.op:
        names = "b", "c", *space
        return steps, _Layout(" ".join(names), names, ("b", "c", *[ONE] * len(space)), "c", space)
    groups = int(parts.whole.attributes.get("num_groups", "1"))
    channel = "c" if groups == 1 else UNNAMED  # the first channels of each of several groups are not contiguous
    steps.extents |= {"g": groups, channel: shape[1] // groups}
    data, elements = " ".join(("b", MERGED, *space)), ("b", "g", channel, *space)
    return steps, _Layout(data, elements, ("b", "g", *[ONE] * (len(space) + 1)), "g", (channel, *space))


def _read_elements(steps: Composition, slot: int, layout: _Layout, name: str) -> ComposedValue:
    data = steps.read(slot, layout.data)
    return data if data.names == layout.elements else steps.reshape(name, data, layout.elements)


def _read_lines(steps: Composition, slot: int, layout: _Layout, name: str) -> ComposedValue:
    return steps.reshape(name, steps.read(slot, " ".join(layout.lines[:2])), layout.lines)


def _read_parameter(steps: Composition, slot: int, layout: _Layout, name: str) -> ComposedValue:
    return steps.reshape(name, steps.read(slot, layout.parameter), layout.spread)


def _finish(steps: Composition, layout: _Layout, op: str, inputs: tuple[ComposedValue, ComposedValue]) -> None:
    if tuple(layout.data.split()) == layout.elements:
        steps.finish(op, inputs, layout.data)
        return
    result = steps.add("result", op, inputs, layout.elements)
    steps.finish("Reshape", (result,), layout.data, shape=steps.parts.output_shape(0))


def _expand_forward(parts: Parts) -> None:
    steps, layout = _start(parts, 0)
    data = _read_elements(steps, 0, layout, "data")
    gamma, beta = (_read_parameter(steps, n, layout, name) for n, name in ((1, "gamma"), (2, "beta")))
    found = measure(steps, data, layout.over)
    eps = round_single(parts.whole.attributes.get("eps", "1e-3" if layout.parameter == "c" else "1e-5"))
    above = steps.add("above", "_plus_scalar", (found.variance,), layout.lines, scalar=eps)
    std = steps.add("std", "sqrt", (above,), layout.lines)
    saved = found.variance if layout.parameter == "c" else std
    for slot, value in ((1, found.mean), (2, saved)):
        steps.give(slot, value, " ".join(layout.lines[:2]))
    normal = steps.add("normal", "broadcast_div", (found.deviation, std), layout.elements)
    scaled = steps.add("scaled", "broadcast_mul", (normal, gamma), layout.elements)
    _finish(steps, layout, "broadcast_add", (scaled, beta))


def _expand_instance_backward(parts: Parts) -> None:
    steps, layout = _start(parts, 3)
    mean, variance = (_read_lines(steps, n, layout, name) for n, name in ((1, "mean"), (2, "variance")))
    eps = round_single(parts.whole.attributes.get("eps", "1e-3"))
    above = steps.add("above", "_plus_scalar", (variance,), layout.lines, scalar=eps)
    _expand_gradient(steps, layout, 3, 4, mean, steps.add("std", "sqrt", (above,), layout.lines))


def _expand_group_backward(parts: Parts) -> None:
    steps, layout = _start(parts, 1)
    mean, std = (_read_lines(steps, n, layout, name) for n, name in ((3, "mean"), (4, "std")))
    _expand_gradient(steps, layout, 1, 2, mean, std)


def _expand_gradient(
    steps: Composition, layout: _Layout, data_slot: int, gamma_slot: int, mean: ComposedValue, std: ComposedValue
) -> None:
    elements, lines = layout.elements, layout.lines
    d_out = _read_elements(steps, 0, layout, "d_out")
    data = _read_elements(steps, data_slot, layout, "data")
    gamma = _read_parameter(steps, gamma_slot, layout, "gamma")
    deviation = steps.add("deviation", "broadcast_sub", (data, mean), elements)
    normal = steps.add("normal", "broadcast_div", (deviation, std), elements)
    slope = steps.add("slope", "elemwise_mul", (d_out, normal), elements)
    projected, total = steps.sum("projected", slope, layout.over), steps.sum("total", d_out, layout.over)
    others = tuple(d for d, name in enumerate(elements) if name != layout.parameter)
    for slot, value in ((1, projected), (2, total)):
        steps.give(slot, value, layout.parameter, "sum", axis=others)
    count = prod(steps.shape(layout.over))
    shares = [
        steps.add(f"share{n}", "_div_scalar", (v,), lines, scalar=count) for n, v in enumerate((total, projected))
    ]
    centred = steps.add("centred", "broadcast_sub", (d_out, shares[0]), elements)
    along = steps.add("along", "broadcast_mul", (normal, shares[1]), elements)
    difference = steps.add("difference", "elemwise_sub", (centred, along), elements)
    scale = steps.add("scale", "broadcast_div", (gamma, std), lines)
    _finish(steps, layout, "broadcast_mul", (difference, scale))


def _start_l2(parts: Parts, slot: int) -> tuple[Composition, list[str], list[str], list[str]]:
    rank, mode = len(parts.shape(slot)), parts.whole.attributes.get("mode", "instance")
    elements = ["b", "c", *(f"s{d}" for d in range(rank - 2))]
    over = {"instance": elements[1:], "channel": ["c"], "spatial": elements[2:]}[mode]
    return (
        Composition(parts, parts.graph_tensors[parts.whole.inputs[slot]].dtype),
        elements,
        [ONE if name in over else name for name in elements],
        over,
    )


def _list_saved(parts: Parts, elements: list[str]) -> list[str]:
    kept = {"instance": ["b"], "channel": ["b", ONE, *elements[2:]], "spatial": ["b", "c"]}
    return kept[parts.whole.attributes.get("mode", "instance")]


def _expand_l2(parts: Parts) -> None:
    steps, elements, lines, over = _start_l2(parts, 0)
    data = steps.read(0, " ".join(elements))
    total = steps.sum("sum", steps.add("square", "square", (data,), elements), over)
    eps = round_single(parts.whole.attributes.get("eps", "1e-10"))
    norm = steps.add("norm", "sqrt", (steps.add("above", "_plus_scalar", (total,), lines, scalar=eps),), lines)
    steps.give(1, norm, " ".join(_list_saved(parts, elements)))
    steps.finish("broadcast_div", (data, norm), " ".join(elements))


def _expand_l2_backward(parts: Parts) -> None:
    steps, elements, lines, over = _start_l2(parts, 0)
    d_out, out = (steps.read(slot, " ".join(elements)) for slot in (0, 1))
    norm = steps.reshape("norm", steps.read(2, " ".join(_list_saved(parts, elements))), lines)
    projected = steps.sum("projected", steps.add("product", "elemwise_mul", (d_out, out), elements), over)
    along = steps.add("along", "broadcast_mul", (out, projected), elements)
    difference = steps.add("difference", "elemwise_sub", (d_out, along), elements)
    steps.finish("broadcast_div", (difference, norm), " ".join(elements))


LOWERINGS = {
    "InstanceNorm": Lowering(_expand_forward, is_possible=_is_possible),
    "_backward_InstanceNorm": Lowering(_expand_instance_backward, is_possible=_is_possible),
    "L2Normalization": Lowering(_expand_l2, is_possible=_is_possible),
    "_backward_L2Normalization": Lowering(_expand_l2_backward, is_possible=_is_possible),
    "GroupNorm": Lowering(_expand_forward, is_possible=_is_possible),
    "_backward_GroupNorm": Lowering(_expand_group_backward, is_possible=_is_possible),
}
