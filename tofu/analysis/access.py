"""The result of the analysis for given shapes: an operator's axes, and the elements that each part accesses.

An *axis* is an index variable along which the operator can be split. A *part* of the operator is the work of one
worker: a range of each axis.
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
    """A way to compute an operator's whole output from the outputs of its parts."""

    CONCAT = 0  # the parts are disjoint regions
    REDUCE = 1  # the parts are partial results, to be reduced
    REPLICATE = 2  # the parts are equal
    OVERLAP_ADD = 3  # the parts overlap, and are summed

    @property
    def word(self) -> str:
        """A word for reports, such as "concatenated"."""
        return ("concatenated", "reduced", "replicated", "summed")[self]


class Row(NamedTuple):
    """Positions that a worker accesses in one dimension of a tensor.

    For example, `Row(((0, 2),), 0, 3)` is the index 2 * i + k. Here, i is the index of axis 0, and k is 0, 1 or 2. A
    worker that computes i = 4 and i = 5 accesses positions 8 to 12. If no axis in `terms` is split, it accesses the
    whole dimension.
    """

    terms: tuple[tuple[int, int], ...]
    lower: int
    upper: int


class Absent(NamedTuple):
    """A dimension that one tensor of an operator lacks, such as the new dimension in `np.stack`.

    `dimension` is its position in the larger tensor. A worker accesses the smaller tensor only if its range of `row`
    contains 0. For example, input 2 of `np.stack` has position 2 in the new dimension. Its `row` is the worker's range
    of this dimension, minus 2.
    """

    dimension: int
    row: Row


@dataclass(frozen=True)
class InputAccess:
    """The elements of one input tensor that a worker reads.

    Attributes
    ----------
    rows
        The range of each dimension.
    addend_axes
        Axes along which only the first worker reads the input. All other workers read zeros, so that a bias is added
        once.
    fill
        The value of elements outside the tensor, such as 0 for padding.
    is_read
        False if the kernel uses only the input's shape.
    absent
        A dimension of the outputs that this input lacks, or None.
    """

    rows: tuple[Row, ...]
    addend_axes: tuple[int, ...]
    fill: float
    is_read: bool
    absent: Absent | None = None


@dataclass(frozen=True)
class OutputAccess:
    """The elements of one output tensor that a worker computes.

    Attributes
    ----------
    rows
        The range of each dimension.
    combine
        For each axis, the way to combine the workers' outputs.
    reducer
        The function that combines partial results: "Sum", "Max", "Min" or "Prod".
    absent
        A dimension of the inputs that this output lacks, or None.
    has_zero_terms
        True if every term of a sum is zero for zero inputs, unlike exp(a).
    """

    rows: tuple[Row, ...]
    combine: tuple[Combine, ...]
    is_written: bool
    reducer: str = "Sum"
    absent: Absent | None = None
    has_zero_terms: bool = True


class Move(NamedTuple):
    """An input that an operator copies to an output. Elements move by `distances[d]` along dimension d."""

    input: int
    distances: tuple[int, ...]


@dataclass(frozen=True)
class OperatorAccess:
    """The axes along which an operator can be split, and the elements that each part accesses.

    Attributes
    ----------
    axes, extents
        The axes and their lengths.
    inputs, outputs
        The elements that a part reads and writes.
    elementwise
        True if each output element depends only on the same element of each input.
    rejected
        All index variables along which the operator cannot be split, each with the reason.
    is_random
        True if the operator draws random numbers.
    fetched_axes
        Axes along which the operator only moves elements. Along such an axis, no kernel runs: workers read the elements
        from each other.
    is_always_fetched
        True for operators such as a slice, which need no kernel.
    outer_axes
        The outer axes of each *nested* axis. They must first be split into parts of length 1. For example, a reshape
        from (6, 4) to (2, 12) reads (a b, c) and writes (a, b c). Here a is the outer axis of b.
    description_names
        The name of each axis in the description, if the names differ.
    undescribed
        The reason why no description applies to the operator, or "".
    moves
        For each output, the inputs that the operator copies or adds to it. () if the operator does more than this.
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
    moves: tuple[tuple[Move, ...], ...] = ()

    def explain_whole(self) -> str:
        """Return the reasons why the operator cannot be split along any axis."""
        if self.undescribed:
            return f'{self.undescribed}, and undescribed="replicate" has every worker compute all of it'
        reasons = [reason if axis in reason else f"{axis}: {reason}" for axis, reason in self.rejected]
        more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
        return "; ".join(reasons[:MOST_REASONS]) + more if reasons else "its results have no dimensions"

    def with_description_names(self, ranges: Mapping[str, T]) -> Mapping[str, T]:
        """Return `ranges` with each axis renamed as in the operator's description."""
        if self.description_names is None:
            return ranges
        return {self.description_names[axis]: value for axis, value in ranges.items() if axis in self.description_names}

    def worker_attributes(
        self,
        local_ranges: Mapping[str, tuple[int, int]],
        local_input_shapes: Sequence[Sequence[int]],
        local_output_shapes: Sequence[Sequence[int]],
    ) -> dict[str, Anything]:
        """Return the attributes that differ on this worker, such as {"num_filter": 8} instead of 16.

        `local_ranges` maps each split axis to this worker's range (begin, end).
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
