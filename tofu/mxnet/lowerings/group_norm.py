"""Replace InstanceNorm, GroupNorm and L2Normalization by operators that can be split along normalised dimensions.

InstanceNorm is handled as a GroupNorm with one channel in each group. The data is reshaped so that the channels become
two dimensions: `g` for the groups, and `c` for the channels in a group. A *line* is a set of elements that are
normalised together, with one mean and one variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tofu.lowering.parts import Lowering, Parts
from tofu.mxnet.lowerings.composition import (
    MERGED,
    ONE,
    UNNAMED,
    ComposedValue,
    Composition,
    compute_statistics,
    has_exact_sums,
    round_single,
)


@dataclass(frozen=True)
class _Layout:
    # Names of dimensions. For an InstanceNorm of images, `data` and `elements` are "b c s0 s1", `lines` "b c 1 1",
    # `parameter` (of gamma and beta) "c", and `reduced` "s0 s1".
    data: str
    elements: tuple[str, ...]
    lines: tuple[str, ...]
    parameter: str
    reduced: tuple[str, ...]

    @property
    def broadcast_parameter(self) -> tuple[str, ...]:
        return tuple(name if name == self.parameter else ONE for name in self.elements)


def _start_composition(parts: Parts, slot: int) -> tuple[Composition, _Layout]:
    shape = parts.shape(slot)
    space = tuple(f"s{d}" for d in range(len(shape) - 2))
    composition = Composition(parts, parts.graph_tensors[parts.whole.inputs[slot]].dtype)
    composition.extents |= dict(zip(space, shape[2:], strict=True))
    if "InstanceNorm" in parts.whole.op:
        names = "b", "c", *space
        return composition, _Layout(" ".join(names), names, ("b", "c", *[ONE] * len(space)), "c", space)
    groups = int(parts.whole.attributes.get("num_groups", "1"))
    channel = "c" if groups == 1 else UNNAMED  # the first channels of each of several groups are not contiguous
    composition.extents |= {"g": groups, channel: shape[1] // groups}
    data, elements = " ".join(("b", MERGED, *space)), ("b", "g", channel, *space)
    return composition, _Layout(data, elements, ("b", "g", *[ONE] * (len(space) + 1)), "g", (channel, *space))


def _read_elements(composition: Composition, slot: int, layout: _Layout, name: str) -> ComposedValue:
    data = composition.read(slot, layout.data)
    return data if data.names == layout.elements else composition.reshape(name, data, layout.elements)


def _read_lines(composition: Composition, slot: int, layout: _Layout, name: str) -> ComposedValue:
    return composition.reshape(name, composition.read(slot, " ".join(layout.lines[:2])), layout.lines)


def _read_parameter(composition: Composition, slot: int, layout: _Layout, name: str) -> ComposedValue:
    return composition.reshape(name, composition.read(slot, layout.parameter), layout.broadcast_parameter)


def _add_last_operators(
    composition: Composition, layout: _Layout, op: str, inputs: tuple[ComposedValue, ComposedValue]
) -> None:
    if tuple(layout.data.split()) == layout.elements:
        composition.finish(op, inputs, layout.data)
        return
    result = composition.add("result", op, inputs, layout.elements)
    composition.finish("Reshape", (result,), layout.data, shape=composition.parts.output_shape(0))


def _expand_forward(parts: Parts) -> None:
    composition, layout = _start_composition(parts, 0)
    data = _read_elements(composition, 0, layout, "data")
    gamma, beta = (_read_parameter(composition, n, layout, name) for n, name in ((1, "gamma"), (2, "beta")))
    statistics = compute_statistics(composition, data, layout.reduced)
    eps = round_single(parts.whole.attributes.get("eps", "1e-3" if layout.parameter == "c" else "1e-5"))
    above = composition.add("above", "_plus_scalar", (statistics.variance,), layout.lines, scalar=eps)
    std = composition.add("std", "sqrt", (above,), layout.lines)
    second_output = statistics.variance if layout.parameter == "c" else std
    for slot, value in ((1, statistics.mean), (2, second_output)):
        composition.set_output(slot, value, " ".join(layout.lines[:2]))
    normal = composition.add("normal", "broadcast_div", (statistics.deviation, std), layout.elements)
    scaled = composition.add("scaled", "broadcast_mul", (normal, gamma), layout.elements)
    _add_last_operators(composition, layout, "broadcast_add", (scaled, beta))


def _expand_instance_backward(parts: Parts) -> None:
    composition, layout = _start_composition(parts, 3)
    mean, variance = (_read_lines(composition, n, layout, name) for n, name in ((1, "mean"), (2, "variance")))
    eps = round_single(parts.whole.attributes.get("eps", "1e-3"))
    above = composition.add("above", "_plus_scalar", (variance,), layout.lines, scalar=eps)
    _expand_gradient(composition, layout, 3, 4, mean, composition.add("std", "sqrt", (above,), layout.lines))


def _expand_group_backward(parts: Parts) -> None:
    composition, layout = _start_composition(parts, 1)
    mean, std = (_read_lines(composition, n, layout, name) for n, name in ((3, "mean"), (4, "std")))
    _expand_gradient(composition, layout, 1, 2, mean, std)


def _expand_gradient(
    composition: Composition, layout: _Layout, data_slot: int, gamma_slot: int, mean: ComposedValue, std: ComposedValue
) -> None:
    elements, lines = layout.elements, layout.lines
    d_out = _read_elements(composition, 0, layout, "d_out")
    data = _read_elements(composition, data_slot, layout, "data")
    gamma = _read_parameter(composition, gamma_slot, layout, "gamma")
    deviation = composition.add("deviation", "broadcast_sub", (data, mean), elements)
    normal = composition.add("normal", "broadcast_div", (deviation, std), elements)
    slope = composition.add("slope", "elemwise_mul", (d_out, normal), elements)
    projected, total = (
        composition.sum("projected", slope, layout.reduced),
        composition.sum("total", d_out, layout.reduced),
    )
    summed = tuple(d for d, name in enumerate(elements) if name != layout.parameter)
    for slot, value in ((1, projected), (2, total)):
        composition.set_output(slot, value, layout.parameter, "sum", axis=summed)
    count = prod(composition.shape(layout.reduced))
    shares = [
        composition.add(f"share{n}", "_div_scalar", (v,), lines, scalar=count) for n, v in enumerate((total, projected))
    ]
    centred = composition.add("centred", "broadcast_sub", (d_out, shares[0]), elements)
    along = composition.add("along", "broadcast_mul", (normal, shares[1]), elements)
    difference = composition.add("difference", "elemwise_sub", (centred, along), elements)
    scale = composition.add("scale", "broadcast_div", (gamma, std), lines)
    _add_last_operators(composition, layout, "broadcast_mul", (difference, scale))


def _name_l2_dimensions(parts: Parts) -> tuple[list[str], list[str], list[str]]:
    rank = len(parts.shape(0))
    elements = ["b", "c", *(f"s{d}" for d in range(rank - 2))][:rank]
    norms, reduced = {
        "instance": (["b"], elements[1:]),
        "channel": (["b", ONE, *elements[2:]], ["c"]),
        "spatial": (["b", "c"], elements[2:]),
    }[parts.whole.attributes.get("mode", "instance")]
    return elements, norms, reduced


def _expand_l2(parts: Parts) -> None:
    elements, norms, reduced = _name_l2_dimensions(parts)
    composition = Composition(parts, parts.graph_tensors[parts.whole.inputs[0]].dtype)
    data = composition.read(0, " ".join(elements))
    total = composition.sum("sum", composition.add("square", "square", (data,), elements), reduced)
    eps = round_single(parts.whole.attributes.get("eps", "1e-10"))
    above = composition.add("above", "_plus_scalar", (total,), total.names, scalar=eps)
    norm = composition.add("norm", "sqrt", (above,), total.names)
    composition.set_output(1, norm, " ".join(norms))
    composition.finish("broadcast_div", (data, norm), " ".join(elements))


def _expand_l2_backward(parts: Parts) -> None:
    elements, norms, reduced = _name_l2_dimensions(parts)
    composition = Composition(parts, parts.graph_tensors[parts.whole.inputs[0]].dtype)
    d_out, out = (composition.read(slot, " ".join(elements)) for slot in (0, 1))
    lines = [ONE if name in reduced else name for name in elements]
    norm = composition.reshape("norm", composition.read(2, " ".join(norms)), lines)
    projected = composition.sum(
        "projected", composition.add("product", "elemwise_mul", (d_out, out), elements), reduced
    )
    along = composition.add("along", "broadcast_mul", (out, projected), elements)
    difference = composition.add("difference", "elemwise_sub", (d_out, along), elements)
    composition.finish("broadcast_div", (difference, norm), " ".join(elements))


LOWERINGS = {
    "InstanceNorm": Lowering(_expand_forward, is_possible=has_exact_sums),
    "_backward_InstanceNorm": Lowering(_expand_instance_backward, is_possible=has_exact_sums),
    "L2Normalization": Lowering(_expand_l2, is_possible=has_exact_sums),
    "_backward_L2Normalization": Lowering(_expand_l2_backward, is_possible=has_exact_sums),
    "GroupNorm": Lowering(_expand_forward, is_possible=has_exact_sums),
    "_backward_GroupNorm": Lowering(_expand_group_backward, is_possible=has_exact_sums),
}
