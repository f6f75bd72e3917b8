"""Results of the analysis at concrete shapes: the axes of an operator, and the regions that its parts read and write.

An *axis* is an index variable along which the operator can be split. A *part* has a range of each axis.
"""

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
    """Way to combine the parts of an output if an axis is split."""

    CONCAT = 0  # the parts are disjoint regions
    REDUCE = 1  # the parts are partial results, to be reduced
    REPLICATE = 2  # the parts are equal
    OVERLAP_ADD = 3  # the parts overlap, and are summed

    @property
    def word(self) -> str:
        """The name in printed reports."""
        return ("concatenated", "reduced", "replicated", "summed")[self]


class Row(NamedTuple):
    """Range of one dimension of a tensor that a part reads or writes, affine in the part's ranges of axes.

    `terms` has pairs (a, c) of an axis and its coefficient. A part with the range [begin_a, end_a) of axis a accesses
        [lower + sum(c * begin_a if c > 0 else c * (end_a - 1)), upper + sum(c * (end_a - 1) if c > 0 else c * begin_a))
    `lower` and `upper` cover all other index variables. If no axis in `terms` is split, the range is the whole
    dimension.
    """

    terms: tuple[tuple[int, int], ...]
    lower: int
    upper: int


class Absent(NamedTuple):
    """Dimension that one tensor of an operator lacks, because the tensor is a single slice along it.

    For example, each input of a stack lacks dimension `dimension` of the output. `row` is a part's range along this
    dimension, relative to the slice. The part accesses the tensor if `row` contains 0.
    """

    dimension: int
    row: Row


@dataclass(frozen=True)
class InputAccess:
    """Region of an input that a part reads, as one row for each dimension.

    Attributes
    ----------
    addend_axes
        Axes along which only the first part reads the input, such as a bias. All other parts read zeros.
    fill
        The value of elements outside the tensor.
    is_read
        False if the kernel uses only the input's shape.
    absent
        A dimension of the outputs that the input lacks, or None.
    """

    rows: tuple[Row, ...]
    addend_axes: tuple[int, ...]
    fill: float
    is_read: bool
    absent: Absent | None = None


@dataclass(frozen=True)
class OutputAccess:
    """Region of an output that a part computes, as one row for each dimension.

    Attributes
    ----------
    combine
        For each axis, how the parts of the output combine.
    reducer
        The function that combines partial results: "Sum", "Max", "Min" or "Prod".
    absent
        A dimension of the inputs that the output lacks, or None.
    has_zero_terms
        True if zeros in the inputs give zero terms in the output's sums.
    """

    rows: tuple[Row, ...]
    combine: tuple[Combine, ...]
    is_written: bool
    reducer: str = "Sum"
    absent: Absent | None = None
    has_zero_terms: bool = True


@dataclass(frozen=True)
class OperatorAccess:
    """Axes of an operator at concrete shapes, and the regions of its parts.

    Attributes
    ----------
    axes, extents
        The axes along which the operator can be split, and their extents.
    inputs, outputs
        The regions of each input and output.
    elementwise
        True if each output element depends only on the same element of each input.
    rejected
        All other index variables, each with the reason why it cannot be split.
    is_random
        True if the operator draws random numbers, so that replicated copies would differ.
    fetched_axes
        Axes along which the operator only moves elements, so that fetches replace its kernel. An output is the sum of
        the inputs, each shifted by the difference of the rows' lower ends and surrounded by `fill`.
    is_always_fetched
        True if a fetch always replaces the kernel, because the operator takes a part of a tensor, such as a slice. The
        rows then hold even if no axis in their terms is split.
    outer_axes
        For each *nested* axis, the axes whose parts must have extent 1 before it is split. From (6, 4) to (2, 12), a
        reshape reads (a b, c) and writes (a, b c). A part of b is a box only within one position of a.
    description_names
        For each axis, its name in the description, if the names differ.
    undescribed
        The reason why no description applies to the operator, or "".
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
    outer_axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    description_names: Mapping[str, str] | None = None
    undescribed: str = ""

    def explain_whole(self) -> str:
        """Return why the operator has no axis to split."""
        if self.undescribed:
            return f'{self.undescribed}, and undescribed="replicate" has every worker compute all of it'
        reasons = [reason if axis in reason else f"{axis}: {reason}" for axis, reason in self.rejected]
        more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
        return "; ".join(reasons[:MOST_REASONS]) + more if reasons else "its results have no dimensions"

    def with_description_names(self, ranges: Mapping[str, T]) -> Mapping[str, T]:
        """Return `ranges` with the description's names of axes as keys."""
        if self.description_names is None:
            return ranges
        return {self.description_names[axis]: value for axis, value in ranges.items() if axis in self.description_names}

    def worker_attributes(
        self,
        local_ranges: Mapping[str, tuple[int, int]],
        local_input_shapes: Sequence[Sequence[int]],
        local_output_shapes: Sequence[Sequence[int]],
    ) -> dict[str, Anything]:
        """Return the attributes that differ on a worker's copy of the operator, in the framework's form.

        `local_ranges` has the half-open range of each split axis on this worker.
        """
        local_ranges = self.with_description_names(local_ranges)
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
