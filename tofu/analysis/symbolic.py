"""The symbolic half of the analysis: collect the indices of each tensor, and reject variables that can never be split.

An index variable can never be split if
- its position is used as a number,
- it indexes the result of an opaque function,
- the output is not linear in the sum over it, or
- it indexes one dimension of a tensor in two ways.

`axes` finds further reasons, which depend on the shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tofu.analysis.interval import AffineIndex, split_affine
from tofu.analysis.linearity import (
    MovedElement,
    NotLinearError,
    find_addends,
    find_factors,
    find_moved_elements,
    find_variables,
    is_zero,
)
from tofu.tdl import expression as tdl
from tofu.tdl.forms import Output
from tofu.tdl.tracing import Trace
from tofu.tdl.walk import accesses, walk


@dataclass(frozen=True)
class Dimension:
    """The indices that a description uses for one dimension of a tensor, such as `2 * i + k`.

    `is_whole` is True if one of the indices is `:` or `Any`.
    """

    indices: tuple[AffineIndex, ...]
    is_whole: bool


@dataclass(frozen=True)
class InputPattern:
    """The indices of the elements that are read. `is_read` is False if only the input's shape is used."""

    dimensions: tuple[Dimension, ...]
    is_read: bool


@dataclass(frozen=True)
class OutputPattern:
    """Formulas for the positions that an operator writes in an output.

    Attributes
    ----------
    summed_axes
        Axes that the operator sums over. Workers' partial results are combined by `reducer`, such as "Sum".
    moving_axes
        Axes that appear in the indices of the output.
    is_written
        False if the framework's kernel never writes the output.
    """

    dimensions: tuple[Dimension, ...]
    summed_axes: frozenset[str]
    moving_axes: frozenset[str]
    is_written: bool
    reducer: str
    has_zero_terms: bool


@dataclass
class Pattern:
    """The results of the symbolic analysis of an operator, which are valid for all shapes.

    Attributes
    ----------
    rejected
        The index variables that cannot be split, each with the reason.
    addend_axes
        For each input, axes along which only one part reads the input. All other parts read zeros.
    value_extents
        The lengths that are used as numbers, as in a mean.
    plain_axes
        Axes whose split changes no other lengths, strides or offsets.
    moved_elements
        The input elements that each output element adds up. None if the operator does more than move elements.
    choosing_variables
        Variables whose value selects the element to copy, such as the new dimension of a stack.
    """

    trace: Trace
    inputs: tuple[InputPattern, ...]
    outputs: tuple[OutputPattern, ...]
    rejected: dict[str, str]
    addend_axes: dict[int, set[str]]
    value_extents: frozenset[tdl.ExtentSymbol]
    is_elementwise: bool
    plain_axes: frozenset[str]
    moved_elements: tuple[tuple[MovedElement, ...], ...] | None
    choosing_variables: frozenset[str]
    is_random: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """All index variables, in order of appearance."""
        return tuple(self.trace.definitions)


def analyse_symbolically(trace: Trace) -> Pattern:
    """Analyse a traced description for all shapes at once."""
    rejected: dict[str, str] = {}
    addend_axes: dict[int, set[str]] = {}
    inputs = tuple(_analyse_input(trace, position) for position in range(len(trace.tensors)))
    outputs = tuple(_analyse_output(trace, output, rejected, addend_axes) for output in trace.outputs)
    moved_elements = _find_moved_elements(trace, inputs)
    choosing_variables = _find_choosing_variables(moved_elements)
    for variable, reason in (
        *(found for found in _reject_positions_used_as_numbers(trace) if found[0] not in choosing_variables),
        *_reject_opaque_results(trace),
        *_reject_shared_randomness(trace, outputs),
        *_reject_inconsistent_reads(trace, inputs),
    ):
        rejected.setdefault(variable, reason)
    for axes in addend_axes.values():
        axes -= set(rejected)
    plain_axes = frozenset(
        axis for axis in trace.definitions if axis not in rejected and _is_plain(trace, inputs, outputs, axis)
    )
    return Pattern(
        trace,
        inputs,
        outputs,
        rejected,
        addend_axes,
        _find_value_extents(trace),
        _is_elementwise(trace),
        plain_axes,
        moved_elements,
        choosing_variables,
        any(isinstance(node, tdl.RandomElement) for value in _list_values(trace) for node in walk(value)),
    )


def _analyse_input(trace: Trace, position: int) -> InputPattern:
    reads: list[tdl.Element | tdl.TensorSlice] = []
    unread_ids: set[int] = set()
    for value in _list_values(trace):
        reads += [access for access in accesses(value) if access.tensor.position == position]
        unread_ids |= {id(node.element) for node in walk(value) if isinstance(node, tdl.Unread)}
    dimensions = tuple(
        _make_dimension([read.indices[d] for read in reads]) for d in range(trace.tensors[position].ndim)
    )
    return InputPattern(dimensions, any(id(read) not in unread_ids for read in reads))


def _make_dimension(indices: list[tdl.AnyIndex | None]) -> Dimension:
    distinct_indices: dict[str, AffineIndex] = {}
    for index in indices:
        for end in (index.first, index.last) if isinstance(index, tdl.AnyOf) else (index,):
            if isinstance(end, tdl.Index):
                distinct_indices.setdefault(str(end), split_affine(end))
    is_whole = not indices or any(index is None or isinstance(index, tdl.WholeDimension) for index in indices)
    return Dimension(tuple(distinct_indices.values()), is_whole)


def _analyse_output(
    trace: Trace, output: Output, rejected: dict[str, str], addend_axes: dict[int, set[str]]
) -> OutputPattern:
    dimensions = tuple(_make_dimension([coordinate]) for coordinate in output.coordinates)
    moving = [name for dimension in dimensions for index in dimension.indices for name in index.terms]
    for name in {name for name in moving if moving.count(name) > 1}:
        rejected.setdefault(name, f"{name} moves two dimensions of an output at once, so its parts are not boxes")
    summed = set(output.variables) - set(moving)
    is_scatter_sum = bool(summed)
    reducer = "Sum"
    if output.value is not None:
        for axis in sorted(find_variables(output.value) - set(output.variables)):
            if isinstance(output.value, tdl.Reduction) and axis in output.value.variables and not is_scatter_sum:
                summed.add(axis)
                reducer = output.value.reducer
                continue
            try:
                addends = find_addends(output.value, axis)
            except NotLinearError as error:
                rejected.setdefault(axis, str(error))
            else:
                summed.add(axis)
                _find_addend_inputs(trace, axis, addends, rejected, addend_axes)
    is_written, has_zero_terms = output.value is not None, _has_zero_terms(trace, output, is_scatter_sum)
    return OutputPattern(dimensions, frozenset(summed), frozenset(moving), is_written, reducer, has_zero_terms)


def _has_zero_terms(trace: Trace, output: Output, is_scatter_sum: bool) -> bool:
    if output.value is None:
        return True
    starts = trace.description.starts
    sums = (node for node in walk(output.value) if isinstance(node, tdl.Reduction) and node.reducer == "Sum")
    terms = [node.body for node in sums if not starts.issuperset(node.variables)]
    if is_scatter_sum:
        terms.append(output.value)
    return all(find_factors(term) or is_zero(term) for term in terms)


def _find_addend_inputs(
    trace: Trace, axis: str, addends: tuple[tdl.Value, ...], rejected: dict[str, str], addend_axes: dict[int, set[str]]
) -> None:
    reads_in_addends = Counter(access.tensor.position for addend in addends for access in accesses(addend))
    reads = Counter(access.tensor.position for value in _list_values(trace) for access in accesses(value))
    for addend in addends:
        for position in sorted(find_factors(addend)):
            if reads_in_addends[position] == reads[position]:
                addend_axes.setdefault(position, set()).add(axis)
                break
        else:
            rejected.setdefault(axis, f"a term beside the sum over {axis} would be added once per part")


def _reject_positions_used_as_numbers(trace: Trace) -> Iterator[tuple[str, str]]:
    for value in _list_values(trace):
        for node in walk(value):
            if isinstance(node, tdl.Position):
                for name in sorted(set(node.index.variables) - trace.description.starts - trace.description.counts):
                    yield (
                        name,
                        f"the position {node.index} is used as a number, and a part would count {name} from zero",
                    )


def _reject_opaque_results(trace: Trace) -> Iterator[tuple[str, str]]:
    for value in _list_values(trace):
        for node in walk(value):
            if isinstance(node, tdl.OpaqueElement):
                for index in node.indices:
                    for name in sorted(index.variables):
                        yield name, f"{name} indexes into the result of an opaque function"


def _reject_shared_randomness(trace: Trace, outputs: tuple[OutputPattern, ...]) -> Iterator[tuple[str, str]]:
    for output, pattern in zip(trace.outputs, outputs, strict=True):
        if output.value is not None and any(isinstance(node, tdl.RandomElement) for node in walk(output.value)):
            for name in trace.definitions:
                if name not in pattern.moving_axes:
                    yield (
                        name,
                        f"an output is drawn at random once for all of {name}, and every part would draw its own",
                    )


def _reject_inconsistent_reads(trace: Trace, inputs: tuple[InputPattern, ...]) -> Iterator[tuple[str, str]]:
    for tensor, pattern in zip(trace.tensors, inputs, strict=True):
        for d, dimension in enumerate(pattern.dimensions):
            for name in dict.fromkeys(name for index in dimension.indices for name in index.terms):
                coefficients = {index.terms.get(name, 0) for index in dimension.indices}
                if dimension.is_whole or len(coefficients) > 1:
                    yield (
                        name,
                        (
                            f"dimension {d} of {tensor.name} is read at {name} and elsewhere, so a part of {name} "
                            "needs more than its own elements"
                        ),
                    )


def _is_plain(trace: Trace, inputs: tuple[InputPattern, ...], outputs: tuple[OutputPattern, ...], axis: str) -> bool:
    symbols = [extent for tensor in trace.tensors for extent in tensor.extents]
    symbols += [extent for extents in trace.output_extents for extent in extents]
    dimensions = [dimension for pattern in inputs for dimension in pattern.dimensions]
    dimensions += [dimension for pattern in outputs for dimension in pattern.dimensions]
    indexed_extents: set[tdl.ExtentSymbol] = set()  # lengths of the dimensions that the axis indexes
    for symbol, dimension in zip(symbols, dimensions, strict=True):
        if any(axis in index.terms for index in dimension.indices):
            if any(dict(index.terms) != {axis: 1} or index.constant != 0 for index in dimension.indices):
                return False
            indexed_extents.add(symbol)
    axis_extents = {definition.extent for definition in trace.definitions[axis]}
    other_expressions = [
        definition.extent
        for name, definitions in trace.definitions.items()
        if name != axis
        for definition in definitions
    ]
    for dimension in dimensions:
        for index in dimension.indices:
            other_expressions += [*index.terms.values(), index.constant]
    changed_symbols = indexed_extents | {tdl.extent_symbol(f"{axis}.extent")}
    return axis_extents <= indexed_extents and not any(
        changed_symbols & expression.free_symbols for expression in other_expressions
    )


def _find_value_extents(trace: Trace) -> frozenset[tdl.ExtentSymbol]:
    return frozenset(
        symbol
        for value in _list_values(trace)
        for node in walk(value)
        if isinstance(node, tdl.Position)
        for symbol in node.index.expression.free_symbols
        if isinstance(symbol, tdl.ExtentSymbol)
    )


def _is_elementwise(trace: Trace) -> bool:
    variables = tuple(trace.definitions)
    for output in trace.outputs:
        if output.groups is None or output.variables != variables or any(len(group) > 1 for group in output.groups):
            return False
    accessed = (access for value in _list_values(trace) for access in accesses(value))
    return all(tuple(map(str, access.indices)) == variables for access in accessed)


def _find_moved_elements(trace: Trace, inputs: tuple[InputPattern, ...]) -> tuple[tuple[MovedElement, ...], ...] | None:
    read_positions = [position for position, pattern in enumerate(inputs) if pattern.is_read]
    outputs = []
    for output in trace.outputs:
        elements = None if output.value is None else find_moved_elements(output.value)
        if elements is None or not read_positions:
            return None
        if sorted(moved.element.tensor.position for moved in elements) != read_positions:
            return None
        outputs.append(elements)
    return tuple(outputs)


def _find_choosing_variables(moved_elements: tuple[tuple[MovedElement, ...], ...] | None) -> frozenset[str]:
    choices = [moved.chosen for elements in moved_elements or () for moved in elements if moved.chosen is not None]
    return frozenset(variable for variable, _ in choices)


def _list_values(trace: Trace) -> Iterator[tdl.Value]:
    for output in trace.outputs:
        if output.value is not None:
            yield output.value
        for coordinate in output.coordinates:
            if isinstance(coordinate, tdl.WholeDimension) and coordinate.position is not None:
                yield coordinate.position
