"""What the analysis says about an operator at concrete shapes: its strategies, and the regions that a part touches."""

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
    """How the parts of an output come together when an axis is split."""

    CONCAT = 0  # the axis moves the region, the parts are disjoint
    REDUCE = 1  # every part is a partial result; they are put together by the output's reducer
    REPLICATE = 2  # every part computes the same
    OVERLAP_ADD = 3  # the axis moves the region, the parts overlap and are added


class Row(NamedTuple):
    """The range of one dimension that a part touches, affine in the part's axes.

    With axis a from begin_a to end_a, exclusive, the range is
        [lower + sum(c * begin_a if c > 0 else c * (end_a - 1)), upper + sum(c * (end_a - 1) if c > 0 else c * begin_a))
    over `terms` (a, c). All other index variables are contained in `lower` and `upper`. Without terms, or when none of
    its axes is split, the whole dimension is meant.
    """

    terms: tuple[tuple[int, int], ...]
    lower: int
    upper: int


class Absent(NamedTuple):
    """A dimension that a tensor lacks, of those of the tensors that its cells move to or from, as each input of a stack does.

    `dimension` is its place there. `row` is where a part of the operator is along it, seen from the one cell that the tensor is of it: a
    part touches the tensor where the row has the cell 0.
    """

    dimension: int
    row: Row


@dataclass(frozen=True)
class InputAccess:
    """The region of an input that a part reads.

    `addend_axes`: axes under whose split only the first part may read it; the others get zeros (a bias under a
    reduction). `fill`: the number in cells outside the tensor. `is_read`: False where the kernel takes the input for
    its shape only. `absent`: of cells that are moved.
    """

    rows: tuple[Row, ...]
    addend_axes: tuple[int, ...]
    fill: float
    is_read: bool
    absent: Absent | None = None


@dataclass(frozen=True)
class OutputAccess:
    """The region of an output that a part computes, and for each axis how the parts come together.

    `reducer`: what makes the result of partial ones, "Sum", "Max", "Min" or "Prod". `absent`: of cells that are moved.
    `has_zero_terms`: the terms of its sums are zero if what they read is zero.
    """

    rows: tuple[Row, ...]
    combine: tuple[Combine, ...]
    is_written: bool
    reducer: str = "Sum"
    absent: Absent | None = None
    has_zero_terms: bool = True


@dataclass(frozen=True)
class OperatorAccess:
    """An operator's strategies at concrete shapes: `axes` with their `extents`, and what each input and output sees of them.

    `fetched_axes` are those of `axes` along which the operator's own kernel cannot compute a part. The operator only moves cells there: a
    part of an output is the sum of the inputs that are read, each at the distance between its rows' lower ends and the output's, with
    `fill` around it. Where a tensor lacks a dimension, its `absent` has the row of it.
    `is_always_fetched`: the operator takes a part of a tensor, as a slice does. Fetches always take its place, so that no worker reads
    more than that part, and its rows hold even if none of their axes is split.
    `rejected` has every other index variable with the reason why it is no strategy. `elementwise`: each cell of each
    output depends on the same cell of each input alone, so that all of them may be laid out alike. `is_random`: it draws
    numbers, so that two workers that compute the same cell would not agree. `own_names`: the description's names of axes that are
    called otherwise here; an axis that has none there is not the description's.
    `undescribed`: why the operator has no description that holds for it; "" if it has one.
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
        """What is said of axes, under the description's names for them; without those that it does not have."""
        if self.own_names is None:
            return ranges
        return {self.own_names[axis]: value for axis, value in ranges.items() if axis in self.own_names}

    def worker_attributes(
        self,
        local_ranges: Mapping[str, tuple[int, int]],
        local_input_shapes: Sequence[Sequence[int]],
        local_output_shapes: Sequence[Sequence[int]],
    ) -> dict[str, Anything]:
        """The attributes in which a worker's copy differs from the operator, as the framework writes them.

        `local_ranges` has the axes' first values on this worker and those after their last; axes left out are whole.
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
