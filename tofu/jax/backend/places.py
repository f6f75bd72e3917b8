"""Where the workers' parts of everything lie under a plan: as boxes, and as layouts where they are plain shards."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tofu import _core
from tofu.analysis import OperatorAccess, Row
from tofu.search import Choices, Problem
from tofu.search.choices import REPLICATED
from tofu.search.geometry import find_shards
from tofu.search.strategies import region

Box: TypeAlias = tuple[tuple[int, int], ...]
Layout: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """The part of a tensor that each worker has. `layout`: the dimension split at each step, None where the parts are no plain shards.

    `own`: where parts overlap, what of its part is a worker's own, or that of its replicas: others read a cell from them.
    """

    boxes: tuple[Box, ...]
    layout: Layout | None
    own: tuple[Box, ...] | None = None

    @property
    def overlaps(self) -> bool:
        """Whether workers have cells that others own."""
        return self.own is not None

    @property
    def owned(self) -> tuple[Box, ...]:
        """What others read from each worker."""
        return self.boxes if self.own is None else self.own

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a part; all are equal."""
        return tuple(end - begin for begin, end in self.boxes[0])

    def widen(self, dimension: int | None) -> Place:
        """The same parts with one dimension more, of one cell; no plain shards any more."""
        if dimension is None:
            return self
        own = None if self.own is None else tuple(widen(box, dimension) for box in self.own)
        return Place(tuple(widen(box, dimension) for box in self.boxes), None, own)


def widen(box: Box, dimension: int | None) -> Box:
    """A box with one dimension more, of one cell, or as it is."""
    return box if dimension is None else (*box[:dimension], (0, 1), *box[dimension:])


class Places:
    """The places of all tensors, and of what copies of operators read and write."""

    def __init__(self, problem: Problem, choices: Choices) -> None:
        self.problem, self.graph, self.factors = problem, problem.graph, problem.factors
        self._choices = choices
        self._shards: dict[tuple[int, Layout], tuple[Box, ...]] = {}
        self._parts: dict[int, tuple[Box, ...]] = {}

    def access(self, operator: int) -> OperatorAccess:
        """What an operator reads and writes."""
        return self.problem.accesses[operator]

    def axes(self, operator: int) -> Layout:
        """The axis of an operator that is split at each step."""
        return tuple(map(int, self._choices.operators[operator]))

    def layout(self, tensor: int) -> Layout:
        """The dimension of a tensor that is split at each step."""
        return tuple(map(int, self._choices.layout(tensor)))

    def shards(self, tensor: int, layout: Layout) -> tuple[Box, ...]:
        """The shards of a tensor in a layout."""
        key = tensor, layout
        if key not in self._shards:
            self._shards[key] = _freeze(find_shards(self.problem, tensor, layout))
        return self._shards[key]

    def tensor(self, tensor: int) -> Place:
        """Where a tensor lies."""
        return self.lay(tensor, self.layout(tensor))

    def lay(self, tensor: int, layout: Layout) -> Place:
        """Where a tensor lies in a layout."""
        boxes = self.shards(tensor, layout)
        if _divides(self.graph.tensors[tensor].shape, layout, self.factors):
            return Place(boxes, layout)
        return Place(boxes, None, _find_own(boxes))

    def parts(self, operator: int) -> tuple[Box, ...]:
        """Each worker's part of an operator's axes."""
        if operator not in self._parts:
            boxes = _core.worker_boxes(
                self.problem.native, list(self.factors), "operator", operator, list(self.axes(operator))
            )
            self._parts[operator] = _freeze(boxes)
        return self._parts[operator]

    def own_parts(self, operator: int) -> tuple[Box, ...]:
        """The same where a position is in one part alone, though parts overlap."""
        parts = self.parts(operator)
        divides = _divides(self.access(operator).extents, self.axes(operator), self.factors)
        return parts if divides else _find_own(parts)

    def counted(self, operator: int) -> dict[int, tuple[int, ...]]:
        """By axis whose parts overlap: how many positions of its part, the first ones, are each worker's own."""
        parts, own = self.parts(operator), self.own_parts(operator)
        pairs = list(zip(zip(*parts, strict=True), zip(*own, strict=True), strict=True))
        return {
            axis: tuple(end - begin for begin, end in its_own)
            for axis, (bounds, its_own) in enumerate(pairs)
            if bounds != its_own
        }

    def read(self, operator: int, slot: int) -> Place:
        """What the copies read of an input. It may reach outside the tensor."""
        return self._find(
            operator, self.graph.operators[operator].inputs[slot], self.access(operator).inputs[slot].rows
        )

    def written(self, operator: int, slot: int) -> Place:
        """What the copies compute of an output."""
        return self._find(
            operator, self.graph.operators[operator].outputs[slot], self.access(operator).outputs[slot].rows
        )

    def _find(self, operator: int, tensor: int, rows: Sequence[Row]) -> Place:
        access, shape = self.access(operator), self.graph.tensors[tensor].shape
        parts, own_parts = self.parts(operator), self.own_parts(operator)
        boxes = tuple(region(rows, shape, part, access.extents) for part in parts)
        own = None
        if parts is not own_parts:
            found = tuple(region(rows, shape, part, access.extents) for part in own_parts)
            own = None if found == boxes else found
        layout = tuple(_find_dimension(rows, axis) for axis in self.axes(operator))
        smallest = min((end - begin for box in boxes for begin, end in box), default=1)
        is_plain = smallest > 0 and _divides(shape, layout, self.factors) and self.shards(tensor, layout) == boxes
        return Place(boxes, layout if is_plain else None, own)


def _find_dimension(rows: Sequence[Row], axis: int) -> int:
    """The one dimension that moves with an axis."""
    moved = [d for d, row in enumerate(rows) if any(a == axis for a, _ in row.terms)]
    return moved[0] if axis != REPLICATED and len(moved) == 1 else REPLICATED


def _divides(shape: Sequence[int], layout: Layout, factors: Sequence[int]) -> bool:
    extents = list(shape)
    for d, factor in zip(layout, factors, strict=True):
        if d != REPLICATED:
            if extents[d] % factor:
                return False
            extents[d] //= factor
    return True


def _find_own(parts: tuple[Box, ...]) -> tuple[Box, ...]:
    """Of each part the positions up to where the next one begins, by dimension; `OwnBoxes` in `csrc/core/geometry` says the same."""
    begins = [sorted({begin for begin, _ in bounds}) for bounds in zip(*parts, strict=True)]

    def end_own(d: int, begin: int, end: int) -> int:
        following = bisect_right(begins[d], begin)
        return min(end, begins[d][following]) if following < len(begins[d]) else end

    return tuple(tuple((b, end_own(d, b, e)) for d, (b, e) in enumerate(part)) for part in parts)


def _freeze(boxes: _core.Int64Array) -> tuple[Box, ...]:
    return tuple(tuple((int(begin), int(end)) for begin, end in box) for box in boxes.tolist())
