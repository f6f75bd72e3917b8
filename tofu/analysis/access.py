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
    """Way in which the workers' results make up an output when an axis is split."""

    CONCAT = 0  # the parts are disjoint regions
    REDUCE = 1  # the parts are partial results, which the output's reducer combines
    REPLICATE = 2  # the parts are equal
    OVERLAP_ADD = 3  # the parts are regions that overlap, and are summed there

    @property
    def word(self) -> str:
        """The combination's name in printed reports."""
        return ("concatenated", "reduced", "replicated", "summed")[self]


class Row(NamedTuple):
    """Range of one dimension of a tensor that a part reads or writes, affine in the part's ranges of axes.

    `terms` holds pairs (a, c) of an axis and its coefficient. A part whose range of axis a is [begin_a, end_a) reads or
    writes the elements
        [lower + sum(c * begin_a if c > 0 else c * (end_a - 1)), upper + sum(c * (end_a - 1) if c > 0 else c * begin_a))
    `lower` and `upper` include all index variables that are not axes. If no axis in `terms` is split, the range is the
    whole dimension.
    """

    terms: tuple[tuple[int, int], ...]
    lower: int
    upper: int


class Absent(NamedTuple):
    """Dimension that a tensor lacks in an operator that only moves elements, such as an input of a stack.

    The tensor is one slice along dimension `dimension` of the stack. `row` is the range of a part along this dimension,
    relative to the slice: a part reads or writes the tensor if `row` contains 0.
    """

    dimension: int
    row: Row


@dataclass(frozen=True)
class InputAccess:
    """Region of an input that each part of an operator reads, as one row per dimension.

    Attributes
    ----------
    addend_axes
        Axes along which only the first part reads the input, and all other parts read zeros. A bias is an example.
    fill
        The value that reads outside the tensor yield.
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
    """Region of an output that each part of an operator computes, as one row per dimension.

    Attributes
    ----------
    combine
        For each axis, how the results of the parts make up the output.
    reducer
        The function that combines partial results: "Sum", "Max", "Min" or "Prod".
    absent
        A dimension of the inputs that the output lacks, or None.
    has_zero_terms
        True if inputs of zeros add nothing to the sums in the output.
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
        True if each element of each output depends only on the same element of each input.
    rejected
        All other index variables, each with the reason why it cannot be split.
    is_random
        True if the operator draws random numbers, so that replicated copies would differ.
    fetched_axes
        Axes along which the operator only moves elements, so that a fetch can replace the kernel, which cannot compute a
        part. The fetch sums the inputs. It shifts each input by the distance between the lower ends of the input's rows
        and of the output's rows, and puts `fill` around it.
    is_always_fetched
        True if the operator takes a part of a tensor, such as a slice. A fetch then always replaces the kernel, so that
        no worker reads other elements. The rows then hold even if no axis in their terms is split.
    outer_axes
        For each *nested* axis, the axes whose parts must have extent 1 before it is split. From (6, 4) to (2, 12), a
        reshape reads (a b, c) and writes (a, b c). A part of b is a box only within one position of a.
    own_names
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
        """Return a mapping from axes with the description's names as keys. Axes that the description lacks are left out."""
        if self.own_names is None:
            return ranges
        return {self.own_names[axis]: value for axis, value in ranges.items() if axis in self.own_names}

    def worker_attributes(
        self,
        local_ranges: Mapping[str, tuple[int, int]],
        local_input_shapes: Sequence[Sequence[int]],
        local_output_shapes: Sequence[Sequence[int]],
    ) -> dict[str, Anything]:
        """Return the attributes that a worker's copy of the operator must change, in the framework's form.

        `local_ranges` maps each split axis to this worker's first value of it and the value after the last one.
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
