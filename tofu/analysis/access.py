"""Results of the analysis at concrete shapes: an operator's strategies, and the regions that each part reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any as Anything
from typing import NamedTuple, TypeVar

from tofu.tdl.description import Description
from tofu.tdl.local import Local

T = TypeVar("T")
MOST_REASONS = 3  # in a message


class Combine(IntEnum):
    """Combination of the parts of an output when an axis is split."""

    CONCAT = 0  # the axis moves the region, and the parts are disjoint
    REDUCE = 1  # the parts are partial results, which the output's reducer combines
    REPLICATE = 2  # the parts are equal
    OVERLAP_ADD = 3  # the axis moves the region, and overlapping parts are summed

    @property
    def word(self) -> str:
        """The word for it in printed reports."""
        return ("concatenated", "reduced", "replicated", "summed")[self]


class Row(NamedTuple):
    """Range of one dimension that a part touches, affine in the part's axes.

    With axis a from begin_a to end_a, exclusive, the range is
        [lower + sum(c * begin_a if c > 0 else c * (end_a - 1)), upper + sum(c * (end_a - 1) if c > 0 else c * begin_a))
    over `terms` (a, c). `lower` and `upper` include all other index variables. Without terms, or if none of its axes is
    split, the range is the whole dimension.
    """

    terms: tuple[tuple[int, int], ...]
    lower: int
    upper: int


class Absent(NamedTuple):
    """Dimension that a tensor lacks, but that the tensors on the other side of a move have, as the inputs of a stack do.

    The tensor is a single element of that dimension, which is number `dimension` there. `row` is the position of a part
    along the dimension, relative to that element: a part touches the tensor if its row contains 0.
    """

    dimension: int
    row: Row


@dataclass(frozen=True)
class InputAccess:
    """Region of an input that a part reads.

    Attributes
    ----------
    addend_axes
        Axes along which only the first part may read the input. The others read zeros, as for a bias beside a sum.
    fill
        The value of elements outside the tensor.
    is_read
        False if the kernel uses only the input's shape.
    absent
        The dimension that the input lacks, if the operator only moves elements.
    """

    rows: tuple[Row, ...]
    addend_axes: tuple[int, ...]
    fill: float
    is_read: bool
    absent: Absent | None = None


@dataclass(frozen=True)
class OutputAccess:
    """Region of an output that a part computes, and how the parts along each axis are combined.

    Attributes
    ----------
    reducer
        Combines partial results: "Sum", "Max", "Min" or "Prod".
    absent
        The dimension that the output lacks, if the operator only moves elements.
    has_zero_terms
        True if the terms of its sums are zero when the elements that they read are zero.
    """

    rows: tuple[Row, ...]
    combine: tuple[Combine, ...]
    is_written: bool
    reducer: str = "Sum"
    absent: Absent | None = None
    has_zero_terms: bool = True


@dataclass(frozen=True)
class OperatorAccess:
    """Strategies of an operator at concrete shapes.

    Attributes
    ----------
    axes, extents
        The axes along which the operator can be split, and their extents.
    inputs, outputs
        The regions of each input and output.
    elementwise
        True if each element of each output depends only on the same element of each input, so that all may have one
        layout.
    rejected
        Every other index variable, with the reason why it cannot be split.
    is_random
        True if the operator draws random numbers, so that replicated copies would differ.
    fetched_axes
        Axes along which the operator's own kernel cannot compute a part, but the operator only moves elements. A part
        of an output is then the sum of its inputs, each shifted by the distance between its rows' lower ends and the
        output's, with `fill` around it.
    is_always_fetched
        True if the operator takes a part of a tensor, such as a slice. A fetch then always replaces its copies, so that
        no worker reads more than that part: its rows hold even if none of their axes is split.
    own_names
        The description's names of axes that have other names here. Axes without a name there are left out.
    undescribed
        The reason why no description holds for the operator; "" if one does.
    """

    axes: tuple[str, ...]
    extents: tuple[int, ...]
    inputs: tuple[InputAccess, ...]
    outputs: tuple[OutputAccess, ...]
    elementwise: bool
    rejected: tuple[tuple[str, str], ...]
    description: Description = field(repr=False, compare=False)
    attributes: Mapping[str, Anything] = field(repr=False, compare=False)
    variable_extents: Mapping[str, int] = field(repr=False, compare=False)
    is_random: bool = False
    fetched_axes: tuple[str, ...] = ()
    is_always_fetched: bool = False
    own_names: Mapping[str, str] | None = None
    undescribed: str = ""

    def explain_whole(self) -> str:
        """Return why the operator has no axis to split."""
        if self.undescribed:
            return f'{self.undescribed}, and undescribed="replicate" has every worker compute all of it'
        reasons = [reason if axis in reason else f"{axis}: {reason}" for axis, reason in self.rejected]
        more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
        return "; ".join(reasons[:MOST_REASONS]) + more if reasons else "its results have no dimensions"

    def by_own_names(self, ranges: Mapping[str, T]) -> Mapping[str, T]:
        """Return a mapping of axes under the description's names, without axes that the description lacks."""
        if self.own_names is None:
            return ranges
        return {self.own_names[axis]: value for axis, value in ranges.items() if axis in self.own_names}

    def worker_attributes(
        self,
        local_ranges: Mapping[str, tuple[int, int]],
        local_input_shapes: Sequence[Sequence[int]],
        local_output_shapes: Sequence[Sequence[int]],
    ) -> dict[str, Anything]:
        """Return the attributes in which a worker's copy differs from the operator, in the framework's form.

        `local_ranges` has each axis's first value and the value after its last on this worker. Axes left out are not
        split.
        """
        local_ranges = self.by_own_names(local_ranges)
        local = Local(self.attributes, self.variable_extents, local_ranges, local_input_shapes, local_output_shapes)
        changed: dict[str, Anything] = {}
        for name, bound in self.description.bound.items():
            if not isinstance(bound, str):
                value = bound(local)
            elif bound in self.variable_extents:
                value = local.extent(bound)
            else:
                continue
            if value is not None and value != self.attributes[name]:
                changed[name] = self.description.format(value)
        return changed
