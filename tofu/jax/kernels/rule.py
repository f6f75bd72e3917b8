"""Rules that name the dimensions of a kernel's arrays along which the kernel can be split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from tofu.analysis import Combine, OperatorAccess, Row
from tofu.errors import DescriptionError
from tofu.search.shared_axes import without_nested_axes

Dimension: TypeAlias = "tuple[str, int] | tuple[()]"
"""The axis that splits a dimension, and the number of elements per position of the axis. () if no axis splits it."""
Dimensions: TypeAlias = tuple[Dimension, ...]
Shape: TypeAlias = tuple[int, ...]

SYNTAX = (
    'A rule has one group of letters for each array, as in "b h _ _, b h _ _ -> b h _ _": a name is an axis that can be split, '
    '"_" a dimension that every part needs whole, "(h _)" a dimension with several elements for each position of h.'
)
TOKENS = re.compile(r"\(\s*([a-z]\w*)\s+_\s*\)|([a-z]\w*)|(_)|(\S)", re.IGNORECASE)


@dataclass(frozen=True)
class SplitRule:
    """A rule for splitting a kernel. It names the axis along which each dimension of an array can be split.

    If an axis splits an output, the workers' outputs are concatenated. If not, they are summed. For example, element h
    of this output depends on columns 4h to 4h + 3 of the input:

    >>> print(SplitRule((((), ("h", 4)),), ((("h", 1),),)))
    _ (h 4) -> h
    """

    inputs: tuple[Dimensions, ...]
    outputs: tuple[Dimensions, ...]

    def __str__(self) -> str:
        return " -> ".join(
            ", ".join(" ".join(map(_format_dimension, group)) or "()" for group in groups)
            for groups in (self.inputs, self.outputs)
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes, in order of first appearance."""
        return tuple(dict.fromkeys(d[0] for group in (*self.inputs, *self.outputs) for d in group if d))

    @property
    def attributes(self) -> dict[str, tuple[Dimensions, ...]]:
        """The rule as attributes of an operator, for `tdl_ops.jax.kernels`."""
        return {"split_inputs": self.inputs, "split_outputs": self.outputs}

    def differentiate(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> SplitRule:
        """Return the rule of the kernel's gradient (vector-Jacobian product).

        `inputs` is True for inputs to differentiate. `outputs` is True for outputs whose gradients are known.
        """
        cotangent_groups = tuple(group for group, is_used in zip(self.outputs, outputs, strict=True) if is_used)
        gradient_groups = tuple(group for group, is_used in zip(self.inputs, inputs, strict=True) if is_used)
        return SplitRule((*self.inputs, *cotangent_groups), gradient_groups)

    def add_batch(self, batched: Sequence[bool], axis: str) -> SplitRule:
        """Return the rule for a batch. `axis` becomes the first dimension of batched inputs and of all outputs."""
        batch_dimension: Dimension = (axis, 1)
        pairs = zip(self.inputs, batched, strict=True)
        inputs = ((batch_dimension, *group) if is_batched else group for group, is_batched in pairs)
        return SplitRule(tuple(inputs), tuple((batch_dimension, *group) for group in self.outputs))

    def find_extents(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """Return the length of each axis for inputs of these shapes.

        Raise DescriptionError if the shapes contradict the rule.
        """
        extents: dict[str, int] = {}
        for n, (dimensions, shape) in enumerate(zip(self.inputs, shapes, strict=True)):
            for d, (dimension, size) in enumerate(zip(dimensions, shape, strict=True)):
                if dimension and extents.setdefault(dimension[0], size // dimension[1]) * dimension[1] != size:
                    raise DescriptionError(
                        f"dimension {d} of input {n} has {size} elements, and axis {dimension[0]} of `{self}` has "
                        f"{extents[dimension[0]]} positions of {dimension[1]} elements each"
                    )
        return extents


def _format_dimension(dimension: Dimension) -> str:
    if not dimension:
        return "_"
    return dimension[0] if dimension[1] == 1 else f"({dimension[0]} {dimension[1]})"


def parse_rule(text: str, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> SplitRule:
    """Parse a rule such as "b h, h -> b" for arrays of these shapes.

    Raise DescriptionError if the text is malformed or does not fit the shapes.
    """
    sides = text.split("->")
    if len(sides) != 2:
        raise DescriptionError(f"{text!r} is no rule: it has {len(sides) - 1} arrows and needs 1. {SYNTAX}")
    named_sides = [[_parse_dimensions(part, text) for part in side.split(",")] for side in sides]
    for side, shapes, side_name in zip(named_sides, (inputs, outputs), ("inputs", "outputs"), strict=True):
        ranks = list(map(len, shapes))
        if [len(group) for group in side] != ranks:
            raise DescriptionError(
                f"{text!r} has {len(side)} {side_name} of {_list_numbers(len(group) for group in side)} dimensions, and the function has "
                f"{len(ranks)} of {_list_numbers(ranks)}: shapes {', '.join(map(str, shapes))}. {SYNTAX}"
            )
    named_shapes = zip(chain(*named_sides), (*inputs, *outputs), strict=True)
    arrays = [list(zip(names, shape, strict=True)) for names, shape in named_shapes]
    extents = _find_extents(chain(*arrays), text)
    groups = tuple(tuple(_size_dimension(name, size, extents, text) for name, size in array) for array in arrays)
    rule = SplitRule(groups[: len(inputs)], groups[len(inputs) :])
    if not rule.axes:
        raise DescriptionError(f"{text!r} names no axis, so nothing can be split. {SYNTAX}")
    return rule


def _list_numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "no"


def _parse_dimensions(part: str, text: str) -> list[str]:
    if part.strip() in ("", "()"):
        return []
    dimensions = []
    for grouped, name, unsplit, unknown in TOKENS.findall(part):
        if unknown:
            raise DescriptionError(
                f"{text!r} is no rule: {unknown!r} in {part.strip()!r} is neither a name nor _. {SYNTAX}"
            )
        dimensions.append(f"({grouped}" if grouped else name or unsplit)
    names = [name.lstrip("(") for name in dimensions if name != "_"]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DescriptionError(f"{text!r} is no rule: an array has two dimensions of {repeated[0]}. Write _ for one.")
    return dimensions


def _find_extents(pairs: Iterable[tuple[str, int]], text: str) -> Mapping[str, int]:
    extents: dict[str, int] = {}
    for name, size in pairs:
        if name != "_" and not name.startswith("(") and extents.setdefault(name, size) != size:
            raise DescriptionError(
                f"axis {name} of {text!r} has the extent {extents[name]} in one array and {size} in another. Use two names"
            )
    return extents


def _size_dimension(name: str, size: int, extents: Mapping[str, int], text: str) -> Dimension:
    if name == "_":
        return ()
    axis = name.lstrip("(")
    if axis not in extents:
        raise DescriptionError(
            f"the extent of {axis} in {text!r} is not known: no array has a dimension of {axis} alone"
        )
    if size % extents[axis]:
        raise DescriptionError(
            f"({axis} _) in {text!r} is a dimension of {size}, which {extents[axis]} positions of {axis} do not divide"
        )
    return axis, size // extents[axis]


def read_rule(access: OperatorAccess) -> SplitRule:
    """Return the split rule that follows from an analysed description.

    Keep only axes along which the workers' results are concatenated or summed.
    """
    access = without_nested_axes(access)
    name_by_axis = {axis: name for axis, name in enumerate(access.axes) if _is_independent(access, axis)}

    def read_dimension(row: Row) -> Dimension:
        axis, size = row.terms[0] if row.terms else (-1, 0)
        return (name_by_axis[axis], size) if axis in name_by_axis else ()

    inputs, outputs = ([tuple(map(read_dimension, x.rows)) for x in each] for each in (access.inputs, access.outputs))
    return SplitRule(tuple(inputs), tuple(outputs))


def _is_independent(access: OperatorAccess, axis: int) -> bool:
    if access.axes[axis] in access.fetched_axes or any(axis in read.addend_axes for read in access.inputs):
        return False
    for written in access.outputs:
        is_sum = written.combine[axis] is Combine.REDUCE and written.reducer == "Sum"
        if written.combine[axis] is not Combine.CONCAT and not is_sum:
            return False
    for all_rows in (*(read.rows for read in access.inputs), *(written.rows for written in access.outputs)):
        rows = [row for row in all_rows if any(axis == row_axis for row_axis, _ in row.terms)]
        if len(rows) > 1 or any(row != Row(((axis, row.upper),), 0, row.upper) for row in rows):
            return False
    return True
