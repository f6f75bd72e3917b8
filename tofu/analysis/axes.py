"""The numeric half of the analysis: find the axes that can be split at concrete shapes, and the rows of every region.

An axis can be split if the framework's kernel, called with one part of the tensors, computes that part of the result.
The kernel sees only the shapes of its part, and counts positions from zero. So a split may change nothing else in the
description. This module evaluates the description at the whole shapes and at the shapes of a part, and compares. Most
axes (`Pattern.plain_axes`) need no comparison. Operators that only move elements (`movement`) need no kernel.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tofu.analysis.access import Absent, Combine, InputAccess, OperatorAccess, OutputAccess, Row
from tofu.analysis.arithmetic import Arithmetic, count_arithmetic
from tofu.analysis.evaluator import Evaluator, IndexNumbers, SignatureNumbers
from tofu.analysis.movement import Shapes, find_absent
from tofu.analysis.symbolic import OutputPattern, Pattern
from tofu.errors import DescriptionError
from tofu.tdl.expression import extent_symbol
from tofu.tdl.local import Local


@dataclass(frozen=True)
class Signature:
    """Symbolic analysis of one signature, which is evaluated at any shapes."""

    pattern: Pattern
    evaluator: Evaluator

    def evaluate(self, input_shapes: Shapes, output_shapes: Shapes) -> OperatorAccess:
        """Return the axes and regions at these shapes. Raises DescriptionError if the shapes contradict the description."""
        return _Evaluation(self, input_shapes, output_shapes).result()

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The operations of each output."""
        return count_arithmetic(self.pattern.trace)


class _Evaluation:
    def __init__(self, signature: Signature, input_shapes: Shapes, output_shapes: Shapes) -> None:
        self.pattern = signature.pattern
        self.evaluator = signature.evaluator
        self.input_shapes = input_shapes
        self.output_shapes = output_shapes
        self.sizes = [extent for shape in (*input_shapes, *output_shapes) for extent in shape]
        self.numbers = self.evaluator.evaluate(self.sizes)
        self.extents = self.numbers.extents
        self._check_extents()
        shapes = (*input_shapes, *output_shapes)
        takes_part = self._takes_part()
        self.absent = find_absent(self.pattern, self.evaluator, self.numbers, shapes, takes_part=takes_part)
        self.takes_part = takes_part and self.absent is not None

    def result(self) -> OperatorAccess:
        rejected, fetched = self._judge()
        axes = tuple(axis for axis in self.pattern.variables if axis not in rejected)
        rows = self._rows(axes)
        return OperatorAccess(
            axes,
            tuple(self.extents[axis] for axis in axes),
            self._inputs(axes, rows),
            self._outputs(axes, rows),
            self._is_elementwise(axes),
            tuple((axis, rejected[axis]) for axis in self.pattern.variables if axis in rejected),
            self.pattern.trace.description,
            self.pattern.trace.attributes,
            self.extents,
            self.pattern.is_random,
            fetched,
            self.takes_part,
        )

    def _judge(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the index variables that cannot be split, with the reasons, and the axes along which fetches replace copies."""
        rejected = dict(self.pattern.rejected)
        fetched = []
        bound = self._find_bound()
        can_be_fetched = self.absent is not None
        for axis in self.pattern.variables:
            if axis in rejected:
                continue
            if (reason := next(self._find_hazards(axis), None)) is not None:
                rejected[axis] = reason
            elif (reason := next(self._find_copy_hazards(axis, axis in bound, can_be_fetched), None)) is None:
                continue
            elif can_be_fetched:
                fetched.append(axis)
            else:
                rejected[axis] = reason
        return rejected, tuple(fetched)

    def _takes_part(self) -> bool:
        """Return True if the operator reads only a part of its single input, as a slice does."""
        read = [n for n, access in enumerate(self.pattern.inputs) if access.is_read]
        if len(read) != 1 or len(self.pattern.outputs) != 1:
            return False
        ranks = [len(access.dimensions) for access in self.pattern.inputs]
        first = sum(ranks[: read[0]])
        dimensions = slice(first, first + ranks[read[0]])
        indices, sizes = self.numbers.dimensions[dimensions], self.sizes[dimensions]
        if any(len(index) != 1 for index in indices):
            return False
        spans = [_span(index[0], self.extents) for index in indices]
        return any(low > 0 or high + 1 < size for (low, high), size in zip(spans, sizes, strict=True))

    def _check_extents(self) -> None:
        description = self.pattern.trace.description
        stated = self.pattern.trace.definitions
        seen: dict[str, int] = {}
        for name, value in self.numbers.definitions:
            number = seen.get(name, 0)
            seen[name] = number + 1
            if value != self.extents[name]:
                raise DescriptionError(
                    f"{stated[name][number].place}: {name} of {description.name} has the extent {self.extents[name]} by "
                    f"{stated[name][0].extent} and {value} by {stated[name][number].extent}; declare it with extents=, or give "
                    f"different index variables different names (inputs {list(self.input_shapes)}, outputs "
                    f"{list(self.output_shapes)})"
                )

    def _find_bound(self) -> set[str]:
        description = self.pattern.trace.description
        bound: set[str] = set()
        for attribute, rule in description.bound.items():
            if isinstance(rule, str):
                bound.add(rule)
                continue
            local = Local(self.pattern.trace.attributes, self.extents, {}, self.input_shapes, self.output_shapes)
            try:
                rule(local)
            except Exception as error:
                raise DescriptionError(
                    f"{description.place}: the function bound to `{attribute}` of {description.name} raised "
                    f"{type(error).__name__}: {error}"
                ) from error
            bound |= set(self.pattern.variables) if local.asked_shapes else local.asked
        return bound

    def _find_hazards(self, axis: str) -> Iterator[str]:
        """Yield the reasons why a part of `axis` does not compute a part of the outputs, the most specific one first."""
        if self.extents[axis] == 1:
            yield f"the extent of {axis} is 1"
            return
        yield from self._merged_inside(axis)
        if all(axis not in output.moving and axis not in output.summed for output in self.pattern.outputs):
            yield f"no output depends on {axis}"

    def _find_copy_hazards(self, axis: str, is_bound: bool, can_be_fetched: bool) -> Iterator[str]:
        """Yield the reasons why a worker's kernel would not compute its part of `axis`, the most specific one first."""
        description = self.pattern.trace.description
        is_padded = axis in description.pads and not can_be_fetched
        extent = self.extents[axis]
        if axis in self.pattern.choosing:
            yield f"the position {axis} is used as a number, and a part would count {axis} from zero"
        if self.pattern.value_extents and axis not in description.corrects | description.counts:
            yield from self._value_extents(axis)
        if not is_padded:
            yield from self._borders(axis)
        if (
            not is_bound
            and any(d.is_fixed and d.is_declared for d in self.pattern.trace.definitions[axis])
            and not description.concrete
        ):
            yield f"the extent of {axis} is fixed by an attribute ({extent}) that no bound= rewrites"
        for part in () if axis in self.pattern.plain_axes else sorted({1, extent - 1}):
            yield from self._local_copy(axis, part, is_bound, is_padded)

    def _merged_inside(self, axis: str) -> Iterator[str]:
        for output in self.pattern.trace.outputs:
            for group in output.groups or ():
                outer = group[: group.index(axis)] if axis in group else ()
                if any(self.extents[name] > 1 for name in outer):
                    yield f"{axis} is not the outermost variable of ({' '.join(group)}), so a part of it is not a box"

    def _value_extents(self, axis: str) -> Iterator[str]:
        changed = {extent_symbol(f"{axis}.extent")}
        symbols = [symbol for tensor in self.pattern.trace.tensors for symbol in tensor.extents]
        for symbol, indices in zip(symbols, self.numbers.dimensions, strict=False):
            if any(axis == name for index in indices for name, _ in index.terms):
                changed.add(symbol)
        for symbol in sorted(changed & self.pattern.value_extents, key=str):
            yield f"the value depends on the extent {symbol}, which is smaller on a part of {axis}"

    def _borders(self, axis: str) -> Iterator[str]:
        for tensor, d, extent, indices in self._dimensions_moved_by(axis):
            begin = min(_span(index, self.extents)[0] for index in indices)
            end = max(_span(index, self.extents)[1] for index in indices) + 1
            where = f"dimension {d} of {tensor} is accessed from {begin} to {end} of {extent}"
            if begin < 0 or end > extent:
                yield (f"padding: {where}, and no bound attribute (pads=) removes the border from the copies")
            elif begin > 0:
                yield f"offset: {where}, and a copy would skip {begin} elements of its part"
            elif end < extent and axis in self.pattern.plain_axes and not self.pattern.trace.description.bound:
                yield f"cut: {where}, and a copy would leave out {extent - end} elements of its part"

    def _dimensions_moved_by(self, axis: str) -> Iterator[tuple[str, int, int, tuple[IndexNumbers, ...]]]:
        trace = self.pattern.trace
        tensors = [(tensor.name, shape) for tensor, shape in zip(trace.tensors, self.input_shapes, strict=True)]
        tensors += [(f"output {o}", shape) for o, shape in enumerate(self.output_shapes)]
        names = ((name, d, extent) for name, shape in tensors for d, extent in enumerate(shape))
        for (name, d, extent), indices in zip(names, self.numbers.dimensions, strict=True):
            if any(axis == moved for index in indices for moved, _ in index.terms):
                yield name, d, extent, indices

    def _local_copy(self, axis: str, part: int, is_bound: bool, is_padded: bool) -> Iterator[str]:
        """Yield the errors that a kernel would make if it had only `part` elements of `axis`."""
        extents = {**self.extents, axis: part}
        sizes = [
            _size(indices, extents) if any(axis == name for i in indices for name, _ in i.terms) else size
            for indices, size in zip(self.numbers.dimensions, self.sizes, strict=True)
        ]
        try:
            local = self.evaluator.evaluate(sizes, {axis: part} if is_bound else None)
        except DescriptionError:
            yield f"a part of {axis} would have extents that are not integers"
            return
        for name, value in local.definitions:
            if value != extents[name] and not (is_bound and name == axis):
                yield (
                    f"a copy would take {name} to have {value} instead of {extents[name]} values when {axis} is split: "
                    f"no tensor's dimension follows it"
                )
        if not is_padded:
            yield from self._compare_indices(axis, extents, local)

    def _compare_indices(self, axis: str, extents: dict[str, int], local: SignatureNumbers) -> Iterator[str]:
        for whole, part in zip(self.numbers.dimensions, local.dimensions, strict=True):
            for before, after in zip(whole, part, strict=True):
                for (name, stride), (_, local_stride) in zip(before.terms, after.terms, strict=True):
                    if stride != local_stride and extents[name] > 1:
                        yield (
                            f"the stride of {name} is {stride}, but {local_stride} in a part of {axis}; if {axis} is not the "
                            "outermost variable of a merged dimension, its parts are not boxes; else write strides with merge()"
                        )
                moved = _span(after, extents)[0] - _span(before, self.extents)[0]
                if moved or after.upper - after.lower != before.upper - before.lower:
                    yield f"a part of {axis} would be read at other positions than the same elements of the whole"

    def _rows(self, axes: tuple[str, ...]) -> Iterator[Row]:
        numbering = {axis: number for number, axis in enumerate(axes)}
        dimensions = zip(self.evaluator.dimensions, self.numbers.dimensions, self.sizes, strict=True)
        for dimension, indices, size in dimensions:
            moving = () if dimension.is_whole else indices[0].terms
            terms = tuple(sorted((numbering[name], stride) for name, stride in moving if name in numbering and stride))
            if not terms and not (self.takes_part and moving):
                yield Row((), 0, size)
                continue
            rest = [_span(index, self.extents, numbering) for index in indices]
            yield Row(terms, min(low for low, _ in rest), max(high for _, high in rest) + 1)

    def _inputs(self, axes: tuple[str, ...], rows: Iterator[Row]) -> tuple[InputAccess, ...]:
        inputs = []
        trace = self.pattern.trace
        for tensor, pattern in zip(self.pattern.trace.tensors, self.pattern.inputs, strict=True):
            tensor_rows = tuple(next(rows) for _ in pattern.dimensions)
            addends = self.pattern.addends.get(tensor.position, set())
            addend_axes = tuple(n for n, axis in enumerate(axes) if axis in addends)
            fill = trace.description.find_fill(tensor.name, trace.attributes)
            absent = self._absent(tensor.position, axes)
            inputs.append(InputAccess(tensor_rows, addend_axes, fill, pattern.is_read, absent))
        return tuple(inputs)

    def _outputs(self, axes: tuple[str, ...], rows: Iterator[Row]) -> tuple[OutputAccess, ...]:
        outputs = []
        position = len(self.numbers.dimensions) - sum(len(output.dimensions) for output in self.pattern.outputs)
        for number, pattern in enumerate(self.pattern.outputs, len(self.pattern.inputs)):
            absent = self._absent(number, axes)
            numbers = self.numbers.dimensions[position : position + len(pattern.dimensions)]
            position += len(pattern.dimensions)
            combine = tuple(self._combine(n, axis, pattern, numbers, absent) for n, axis in enumerate(axes))
            tensor_rows = tuple(next(rows) for _ in pattern.dimensions)
            outputs.append(
                OutputAccess(tensor_rows, combine, pattern.is_written, pattern.reducer, absent, pattern.has_zero_terms)
            )
        return tuple(outputs)

    def _absent(self, number: int, axes: tuple[str, ...]) -> Absent | None:
        """Return the dimension that a tensor lacks. Tensors are numbered inputs first, then outputs."""
        found = None if self.absent is None else self.absent[number]
        if found is None:
            return None
        is_split = found.axis in axes
        terms = ((axes.index(found.axis), 1),) if is_split else ()
        return Absent(
            found.dimension, Row(terms, -found.position, (1 if is_split else self.extents[found.axis]) - found.position)
        )

    def _combine(
        self,
        number: int,
        axis: str,
        pattern: OutputPattern,
        numbers: Sequence[tuple[IndexNumbers, ...]],
        absent: Absent | None,
    ) -> Combine:
        if absent is not None and number in dict(absent.row.terms):
            return Combine.CONCAT
        if axis in pattern.summed:
            return Combine.REDUCE
        if axis not in pattern.moving:
            return Combine.REPLICATE
        for index in (index for indices in numbers for index in indices):
            coefficient = abs(dict(index.terms).get(axis, 0))
            if coefficient:
                low, high = _span(index, self.extents, {axis: 0})
                return Combine.CONCAT if coefficient > high - low else Combine.OVERLAP_ADD
        return Combine.REPLICATE

    def _is_elementwise(self, axes: tuple[str, ...]) -> bool:
        shapes = set(self.input_shapes) | set(self.output_shapes)
        strategies = [axis for axis in self.pattern.variables if self.extents[axis] > 1]
        return self.pattern.is_elementwise and len(shapes) == 1 and strategies == list(axes)


def _span(index: IndexNumbers, extents: Mapping[str, int], left_out: Container[str] = ()) -> tuple[int, int]:
    """Return the smallest and largest value of an index. The variables in `left_out` are zero."""
    low, high = index.lower, index.upper
    for name, coefficient in index.terms:
        if name not in left_out:
            reach = coefficient * (extents[name] - 1)
            low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high


def _size(indices: Sequence[IndexNumbers], extents: dict[str, int]) -> int:
    spans = [_span(index, extents) for index in indices]
    return max(high for _, high in spans) - min(low for low, _ in spans) + 1
