"""The numeric half of the analysis: find the axes along which an operator can be split at given shapes.

On each worker, the framework's own kernel runs on a part of the tensors. An axis can be split if the kernel then
computes the same part of the result. The kernel sees only the shapes of its part, and counts positions from zero. So
this module evaluates the description at the whole shapes and at the shapes of a part. It rejects the axis if the
lengths, strides or offsets along other axes differ.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TypeVar

from tofu.analysis.access import Absent, Combine, InputAccess, OperatorAccess, OutputAccess, Row
from tofu.analysis.arithmetic import Arithmetic, count_arithmetic
from tofu.analysis.evaluator import Evaluator, IndexNumbers, SignatureNumbers
from tofu.analysis.movement import find_absent, find_moves
from tofu.analysis.symbolic import Dimension, OutputPattern, Pattern
from tofu.errors import DescriptionError
from tofu.tdl.expression import extent_symbol
from tofu.tdl.local import Local

T = TypeVar("T")
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Signature:
    """The analysis of an operator for all shapes."""

    pattern: Pattern
    evaluator: Evaluator
    _accesses: dict[tuple[Shapes, Shapes], OperatorAccess] = field(default_factory=dict, repr=False, compare=False)

    def evaluate(self, input_shapes: Shapes, output_shapes: Shapes) -> OperatorAccess:
        """Return the axes that can be split at these shapes. Raise DescriptionError if the shapes contradict the description."""
        shapes = input_shapes, output_shapes
        if shapes not in self._accesses:
            self._accesses[shapes] = _Evaluation(self, *shapes).find_access()
        return self._accesses[shapes]

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The number of arithmetic operations of each output."""
        return count_arithmetic(self.pattern.trace)


class _Evaluation:
    # The analysis at given shapes. `tensor_indices[t][d]` has the indices of dimension d of tensor t, inputs before
    # outputs.
    def __init__(self, signature: Signature, input_shapes: Shapes, output_shapes: Shapes) -> None:
        self.pattern = signature.pattern
        self.evaluator = signature.evaluator
        self.input_shapes = input_shapes
        self.output_shapes = output_shapes
        self.shapes = (*input_shapes, *output_shapes)
        self.sizes = [extent for shape in self.shapes for extent in shape]
        self.numbers = self.evaluator.evaluate(self.sizes)
        self.extents = self.numbers.extents
        self._check_extents()
        self.bound_axes = self._find_bound_axes()
        self.tensor_indices = self._group_by_tensor(self.numbers.dimensions)
        pairs = zip(self.evaluator.dimensions, self.numbers.dimensions, strict=True)
        self.moved_indices = self._group_by_tensor(None if d.is_whole else indices for d, indices in pairs)
        reads_part = self._reads_part()
        self.absent_elements = find_absent(self.pattern, self.moved_indices, {} if reads_part else self.extents)
        self.is_always_fetched = reads_part and self.absent_elements is not None

    def _group_by_tensor(self, dimensions: Iterable[T]) -> list[list[T]]:
        remaining = iter(dimensions)
        return [[next(remaining) for _ in shape] for shape in self.shapes]

    def find_access(self) -> OperatorAccess:
        rejected, fetched_axes, self.outer_axes = self._judge_variables()
        axes = tuple(axis for axis in self.pattern.variables if axis not in rejected)
        rows = self._find_rows(axes)
        input_count = len(self.input_shapes)
        return OperatorAccess(
            axes,
            tuple(self.extents[axis] for axis in axes),
            self._access_inputs(axes, rows[:input_count]),
            self._access_outputs(axes, rows[input_count:]),
            self._is_elementwise(axes),
            tuple((axis, rejected[axis]) for axis in self.pattern.variables if axis in rejected),
            self.pattern.trace.description,
            self.pattern.trace.attributes,
            self.extents,
            self.pattern.is_random,
            fetched_axes,
            self.is_always_fetched,
            self.outer_axes,
            moves=() if self.absent_elements is None else find_moves(self.pattern, self.moved_indices),
        )

    def _judge_variables(self) -> tuple[dict[str, str], tuple[str, ...], dict[str, tuple[str, ...]]]:
        rejected = dict(self.pattern.rejected)
        fetched_axes = []
        nested_axes = {}
        can_be_fetched = self.absent_elements is not None
        for axis in self.pattern.variables:
            if axis in rejected:
                continue
            if (reason := next(self._find_region_problems(axis), None)) is not None:
                rejected[axis] = reason
            elif (reason := next(self._find_copy_problems(axis, can_be_fetched), None)) is None:
                continue
            elif can_be_fetched:
                fetched_axes.append(axis)
            else:
                rejected[axis] = reason
            if axis in rejected and not can_be_fetched and (outer := self._find_outer_variables(axis)):
                nested_axes[axis] = outer
        outer_axes: dict[str, tuple[str, ...]] = {}
        while ready := [axis for axis, outer in nested_axes.items() if rejected.keys().isdisjoint(outer)]:
            for axis in ready:
                outer = nested_axes.pop(axis)
                all_outer = (*outer, *chain.from_iterable(outer_axes.get(name, ()) for name in outer))
                outer_axes[axis] = tuple(name for name in self.pattern.variables if name in all_outer)
                del rejected[axis]
        return rejected, tuple(fetched_axes), outer_axes

    def _find_outer_variables(self, axis: str) -> tuple[str, ...]:
        names: set[str] = set()
        for output in self.pattern.trace.outputs:
            for group in output.groups or ():
                names.update(group[: group.index(axis)] if axis in group else ())
        part_numbers = self._evaluate_part({**self.extents, axis: 1}, {axis})
        for whole_index, part_index in self._pair_indices(part_numbers) if part_numbers is not None else ():
            pairs = zip(whole_index.terms, part_index.terms, strict=True)
            names |= {name for (name, stride), (_, part_stride) in pairs if stride != part_stride}
        outer = tuple(name for name in self.pattern.variables if name in names and self.extents[name] > 1)
        problems = chain(self._find_region_problems(axis, outer), self._find_copy_problems(axis, False, outer))
        return outer if outer and next(problems, None) is None else ()

    def _reads_part(self) -> bool:
        read_inputs = [number for number, access in enumerate(self.pattern.inputs) if access.is_read]
        if len(self.pattern.outputs) != 1 or any(len(i) != 1 for n in read_inputs for i in self.tensor_indices[n]):
            return False
        spans = [
            (_span(index, self.extents), size)
            for number in read_inputs
            for (index,), size in zip(self.tensor_indices[number], self.shapes[number], strict=True)
        ]
        return any(low > 0 or high + 1 < size for (low, high), size in spans)

    def _check_extents(self) -> None:
        description = self.pattern.trace.description
        definitions = iter(
            (name, definition)
            for name, definitions in self.pattern.trace.definitions.items()
            for definition in definitions
        )
        for (_, value), (name, definition) in zip(self.numbers.definitions, definitions, strict=True):
            if value != self.extents[name]:
                first_definition = self.pattern.trace.definitions[name][0]
                raise DescriptionError(
                    f"{definition.place}: {name} of {description.name} has the extent {self.extents[name]} by "
                    f"{first_definition.extent} and {value} by {definition.extent}; declare it with extents=, or give "
                    f"different index variables different names (inputs {list(self.input_shapes)}, outputs "
                    f"{list(self.output_shapes)})"
                )

    def _find_bound_axes(self) -> set[str]:
        description = self.pattern.trace.description
        bound_axes: set[str] = set()
        for attribute, bound in description.bound.items():
            if isinstance(bound, str):
                bound_axes.add(bound)
                continue
            local = Local(self.pattern.trace.attributes, self.extents, {}, self.input_shapes, self.output_shapes)
            try:
                bound(local)
            except Exception as error:
                raise DescriptionError(
                    f"{description.place}: the function bound to `{attribute}` of {description.name} raised "
                    f"{type(error).__name__}: {error}"
                ) from error
            bound_axes |= set(self.pattern.variables) if local.has_read_shapes else local.read_variables
        return bound_axes

    def _find_region_problems(self, axis: str, outer: Sequence[str] = ()) -> Iterator[str]:
        if self.extents[axis] == 1:
            yield f"the extent of {axis} is 1"
            return
        for output in self.pattern.trace.outputs:
            for group in output.groups or ():
                outer_variables = group[: group.index(axis)] if axis in group else ()
                if any(self.extents[name] > 1 and name not in outer for name in outer_variables):
                    yield f"{axis} is not the outermost variable of ({' '.join(group)}), so a part of it is not a box"
        if all(axis not in output.moving_axes and axis not in output.summed_axes for output in self.pattern.outputs):
            yield f"no output depends on {axis}"

    def _find_copy_problems(self, axis: str, can_be_fetched: bool, outer: Sequence[str] = ()) -> Iterator[str]:
        description = self.pattern.trace.description
        is_padded = axis in description.pads and not can_be_fetched
        extent = self.extents[axis]
        if axis in self.pattern.choosing_variables:
            yield f"the position {axis} is used as a number, and a part would count {axis} from zero"
        if self.pattern.value_extents and axis not in description.corrects | description.counts:
            yield from self._find_value_problems(axis)
        if not is_padded:
            yield from self._find_border_problems(axis)
        if (
            axis not in self.bound_axes
            and any(d.is_fixed and d.is_declared for d in self.pattern.trace.definitions[axis])
            and not description.concrete
        ):
            yield f"the extent of {axis} is fixed by an attribute ({extent}) that no bound= rewrites"
        for part_extent in () if axis in self.pattern.plain_axes else sorted({1, extent - 1}):
            extents = {**self.extents, **dict.fromkeys(outer, 1), axis: part_extent}
            yield from self._find_part_problems(axis, extents, {axis, *outer}, is_padded)

    def _find_value_problems(self, axis: str) -> Iterator[str]:
        changed_extents = {extent_symbol(f"{axis}.extent")}
        for tensor, indices_by_dimension in zip(self.pattern.trace.tensors, self.tensor_indices, strict=False):
            for symbol, indices in zip(tensor.extents, indices_by_dimension, strict=True):
                if _depend_on(indices, axis):
                    changed_extents.add(symbol)
        for symbol in sorted(changed_extents & self.pattern.value_extents, key=str):
            yield f"the value depends on the extent {symbol}, which is smaller on a part of {axis}"

    def _find_border_problems(self, axis: str) -> Iterator[str]:
        names = [tensor.name for tensor in self.pattern.trace.tensors]
        names += [f"output {number}" for number in range(len(self.output_shapes))]
        for name, shape, indices_by_dimension in zip(names, self.shapes, self.tensor_indices, strict=True):
            for d, (extent, indices) in enumerate(zip(shape, indices_by_dimension, strict=True)):
                if not _depend_on(indices, axis):
                    continue
                begin = min(_span(index, self.extents)[0] for index in indices)
                end = max(_span(index, self.extents)[1] for index in indices) + 1
                where = f"dimension {d} of {name} is accessed from {begin} to {end} of {extent}"
                if begin < 0 or end > extent:
                    yield f"padding: {where}, and no bound attribute (pads=) removes the border from the copies"
                elif begin > 0:
                    yield f"offset: {where}, and a copy would skip {begin} elements of its part"
                elif end < extent and axis in self.pattern.plain_axes and not self.pattern.trace.description.bound:
                    yield f"cut: {where}, and a copy would leave out {extent - end} elements of its part"

    def _evaluate_part(self, extents: dict[str, int], changed: Set[str]) -> SignatureNumbers | None:
        sizes = [
            _count_indexed(indices, extents) if any(_depend_on(indices, axis) for axis in changed) else size
            for indices, size in zip(self.numbers.dimensions, self.sizes, strict=True)
        ]
        try:
            return self.evaluator.evaluate(sizes, {name: extents[name] for name in self._find_known(changed)})
        except DescriptionError:
            return None

    def _find_known(self, changed: Set[str]) -> Set[str]:
        trace = self.pattern.trace
        follows_shapes = trace.description.concrete and not trace.attributes and len(changed) > 1
        return changed if follows_shapes else changed & self.bound_axes

    def _pair_indices(self, part_numbers: SignatureNumbers) -> Iterator[tuple[IndexNumbers, IndexNumbers]]:
        for whole_indices, part_indices in zip(self.numbers.dimensions, part_numbers.dimensions, strict=True):
            yield from zip(whole_indices, part_indices, strict=True)

    def _find_part_problems(
        self, axis: str, extents: dict[str, int], changed: Set[str], is_padded: bool
    ) -> Iterator[str]:
        part_numbers = self._evaluate_part(extents, changed)
        if part_numbers is None:
            yield f"a part of {axis} would have extents that are not integers"
            return
        known = self._find_known(changed)
        for name, value in part_numbers.definitions:
            if value != extents[name] and name not in known:
                yield (
                    f"a copy would take {name} to have {value} instead of {extents[name]} values when {axis} is split: "
                    f"no tensor's dimension follows it"
                )
        if not is_padded:
            yield from self._find_index_problems(axis, extents, part_numbers)

    def _find_index_problems(self, axis: str, extents: dict[str, int], part_numbers: SignatureNumbers) -> Iterator[str]:
        for whole_index, part_index in self._pair_indices(part_numbers):
            for (name, stride), (_, part_stride) in zip(whole_index.terms, part_index.terms, strict=True):
                if stride != part_stride and extents[name] > 1:
                    yield (
                        f"the stride of {name} is {stride}, but {part_stride} in a part of {axis}; if {axis} is not the "
                        "outermost variable of a merged dimension, its parts are not boxes; else write strides with merge()"
                    )
            shift = _span(part_index, extents)[0] - _span(whole_index, self.extents)[0]
            if shift or part_index.upper - part_index.lower != whole_index.upper - whole_index.lower:
                yield f"a part of {axis} would be read at other positions than the same elements of the whole"

    def _find_rows(self, axes: tuple[str, ...]) -> list[tuple[Row, ...]]:
        number_by_axis = {axis: number for number, axis in enumerate(axes)}

        def find_row(dimension: Dimension, indices: tuple[IndexNumbers, ...], size: int) -> Row:
            moving_terms = () if dimension.is_whole else indices[0].terms
            axis_terms = [
                (number_by_axis[name], stride) for name, stride in moving_terms if name in number_by_axis and stride
            ]
            if not axis_terms and not (self.is_always_fetched and moving_terms):
                return Row((), 0, size)
            spans = [_span(index, self.extents, number_by_axis) for index in indices]
            return Row(tuple(sorted(axis_terms)), min(low for low, _ in spans), max(high for _, high in spans) + 1)

        rows = map(find_row, self.evaluator.dimensions, self.numbers.dimensions, self.sizes)
        return list(map(tuple, self._group_by_tensor(rows)))

    def _access_inputs(self, axes: tuple[str, ...], rows: Sequence[tuple[Row, ...]]) -> tuple[InputAccess, ...]:
        inputs = []
        trace = self.pattern.trace
        for tensor, pattern, tensor_rows in zip(trace.tensors, self.pattern.inputs, rows, strict=True):
            addend_axes = self.pattern.addend_axes.get(tensor.position, set())
            addend_axis_numbers = tuple(number for number, axis in enumerate(axes) if axis in addend_axes)
            fill = trace.description.find_fill_value(tensor.name, trace.attributes)
            absent = self._find_absent_row(tensor.position, axes)
            inputs.append(InputAccess(tensor_rows, addend_axis_numbers, fill, pattern.is_read, absent))
        return tuple(inputs)

    def _access_outputs(self, axes: tuple[str, ...], rows: Sequence[tuple[Row, ...]]) -> tuple[OutputAccess, ...]:
        outputs = []
        for position, (pattern, tensor_rows) in enumerate(zip(self.pattern.outputs, rows, strict=True)):
            tensor = len(self.pattern.inputs) + position
            absent = self._find_absent_row(tensor, axes)
            combine = tuple(
                Combine.CONCAT
                if absent is not None and number in dict(absent.row.terms)
                else self._find_combine(axis, pattern, self.tensor_indices[tensor])
                for number, axis in enumerate(axes)
            )
            outputs.append(
                OutputAccess(tensor_rows, combine, pattern.is_written, pattern.reducer, absent, pattern.has_zero_terms)
            )
        return tuple(outputs)

    def _find_absent_row(self, tensor: int, axes: tuple[str, ...]) -> Absent | None:
        absent_element = None if self.absent_elements is None else self.absent_elements[tensor]
        if absent_element is None:
            return None
        dimension, axis, position = absent_element
        if axis in axes:
            return Absent(dimension, Row(((axes.index(axis), 1),), -position, 1 - position))
        return Absent(dimension, Row((), -position, self.extents[axis] - position))

    def _find_combine(
        self, axis: str, pattern: OutputPattern, indices_by_dimension: Sequence[tuple[IndexNumbers, ...]]
    ) -> Combine:
        if axis in pattern.summed_axes:
            return Combine.REDUCE
        for index in (index for indices in indices_by_dimension for index in indices):
            coefficient = abs(dict(index.terms).get(axis, 0))
            if coefficient:
                low, high = _span(index, self.extents, {axis, *self.outer_axes.get(axis, ())})
                return Combine.CONCAT if coefficient > high - low else Combine.OVERLAP_ADD
        return Combine.REPLICATE

    def _is_elementwise(self, axes: tuple[str, ...]) -> bool:
        long_variables = [variable for variable in self.pattern.variables if self.extents[variable] > 1]
        return self.pattern.is_elementwise and len(set(self.shapes)) == 1 and long_variables == list(axes)


def _depend_on(indices: Sequence[IndexNumbers], axis: str) -> bool:
    return any(name == axis for index in indices for name, _ in index.terms)


def _span(index: IndexNumbers, extents: Mapping[str, int], zero_variables: Container[str] = ()) -> tuple[int, int]:
    low, high = index.lower, index.upper
    for name, coefficient in index.terms:
        if name not in zero_variables:
            reach = coefficient * (extents[name] - 1)
            low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high


def _count_indexed(indices: Sequence[IndexNumbers], extents: dict[str, int]) -> int:
    spans = [_span(index, extents) for index in indices]
    return max(high for _, high in spans) - min(low for low, _ in spans) + 1
