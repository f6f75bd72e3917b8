"""The symbolic half of the analysis: collect the indices of each tensor, and reject variables that can never be split.

An index variable cannot be split at any shapes if
- its position is used as a number,
- it indexes the result of an opaque function,
- the output is not linear in the sum over it, or
- it indexes one dimension of a tensor in two ways.

Reasons that depend on the shapes are found in `axes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tofu.analysis.interval import AffineIndex, split_affine
from tofu.analysis.linearity import (
    Linear,
    Mentions,
    MovedElement,
    Nonlinear,
    classify_sum,
    find_factors,
    find_moved_elements,
    find_whole_reducer,
    is_zero,
)
from tofu.tdl.expression import (
    AnyIndex,
    AnyOf,
    Element,
    ExtentSymbol,
    Index,
    OpaqueElement,
    Position,
    RandomElement,
    Reduction,
    TensorSlice,
    Unread,
    Value,
    WholeDimension,
    extent_symbol,
)
from tofu.tdl.forms import Output
from tofu.tdl.tracing import Trace
from tofu.tdl.walk import accesses, walk


@dataclass(frozen=True)
class Dimension:
    """All indices with which one dimension of a tensor is read. `is_whole` is True if a read takes the whole dimension."""

    indices: tuple[AffineIndex, ...]
    is_whole: bool


@dataclass(frozen=True)
class InputPattern:
    """Indices with which an input is read. `is_read` is False if only its shape is used."""

    dimensions: tuple[Dimension, ...]
    is_read: bool


@dataclass(frozen=True)
class OutputPattern:
    """Indices with which an output is written.

    Attributes
    ----------
    summed
        The axes whose parts compute partial results, which `reducer` combines.
    moving
        The axes that the position of an element depends on.
    has_zero_terms
        True if inputs of zeros add nothing to the sums in the output.
    """

    dimensions: tuple[Dimension, ...]
    summed: frozenset[str]
    moving: frozenset[str]
    is_written: bool
    reducer: str
    has_zero_terms: bool


@dataclass
class Pattern:
    """Results of the symbolic analysis of one signature, which hold at all shapes.

    Attributes
    ----------
    rejected
        Index variables that cannot be split, with the reason.
    addends
        For the position of an input, the axes along which all parts but one must read zeros instead of the input.
    value_extents
        Extents that values are computed from.
    plain_axes
        Axes that always index a dimension alone, where no other index or extent depends on that dimension.
    moved
        If the operator only moves elements, the input elements whose sum is an element of each output, one from each
        input that is read; otherwise None.
    choosing
        Variables whose positions only choose one of the elements in `moved`.
    """

    trace: Trace
    inputs: tuple[InputPattern, ...]
    outputs: tuple[OutputPattern, ...]
    rejected: dict[str, str]
    addends: dict[int, set[str]]
    value_extents: frozenset[ExtentSymbol]
    is_elementwise: bool
    plain_axes: frozenset[str]
    moved: tuple[tuple[MovedElement, ...], ...] | None
    choosing: frozenset[str]
    is_random: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """All index variables, in order of appearance."""
        return tuple(self.trace.definitions)


def analyse_symbolically(trace: Trace) -> Pattern:
    """Analyse a traced description symbolically, for all extents at once."""
    mentions = Mentions()
    rejected: dict[str, str] = {}
    addends: dict[int, set[str]] = {}
    inputs = tuple(_input_pattern(trace, position) for position in range(len(trace.tensors)))
    outputs = tuple(_output_pattern(trace, o, mentions, rejected, addends) for o in range(len(trace.outputs)))
    moved = _find_moved(trace, inputs)
    choosing = _find_choosing(trace, moved)
    for reason in (
        *(reason for reason in _absolute_positions(trace) if reason[0] not in choosing),
        *_opaque_results(trace),
        *_shared_randomness(trace, outputs),
        *_inconsistent(trace, inputs),
    ):
        rejected.setdefault(*reason)
    for axes in addends.values():
        axes -= set(rejected)
    plain = frozenset(
        axis for axis in trace.definitions if axis not in rejected and _is_plain(trace, inputs, outputs, axis)
    )
    return Pattern(
        trace,
        inputs,
        outputs,
        rejected,
        addends,
        _value_extents(trace),
        _is_elementwise(trace),
        plain,
        moved,
        choosing,
        any(isinstance(node, RandomElement) for value in _values(trace) for node in walk(value)),
    )


def _input_pattern(trace: Trace, position: int) -> InputPattern:
    found: list[Element | TensorSlice] = []
    unread: set[int] = set()
    for value in _values(trace):
        found += [access for access in accesses(value) if access.tensor.position == position]
        unread |= {id(node.element) for node in walk(value) if isinstance(node, Unread)}
    dimensions = tuple(_join([access.indices[d] for access in found]) for d in range(trace.tensors[position].ndim))
    return InputPattern(dimensions, any(id(access) not in unread for access in found))


def _join(indices: list[AnyIndex | None]) -> Dimension:
    distinct: dict[str, AffineIndex] = {}
    for index in indices:
        for end in (index.first, index.last) if isinstance(index, AnyOf) else (index,):
            if isinstance(end, Index):
                distinct.setdefault(str(end), split_affine(end))
    is_whole = not indices or any(index is None or isinstance(index, WholeDimension) for index in indices)
    return Dimension(tuple(distinct.values()), is_whole)


def _output_pattern(
    trace: Trace, number: int, mentions: Mentions, rejected: dict[str, str], addends: dict[int, set[str]]
) -> OutputPattern:
    output = trace.outputs[number]
    dimensions = tuple(_join([coordinate]) for coordinate in output.coordinates)
    moving = [name for dimension in dimensions for index in dimension.indices for name in index.terms]
    for name in {name for name in moving if moving.count(name) > 1}:
        rejected.setdefault(name, f"{name} moves two dimensions of an output at once, so its parts are not boxes")
    summed = set(output.variables) - set(moving)
    reducer = "Sum"
    if output.value is not None:
        for axis in sorted(mentions.of(output.value) - set(output.variables)):
            dependence = classify_sum(output.value, axis, mentions)
            whole = find_whole_reducer(output.value, axis)
            if not set(output.variables) - set(moving) and whole is not None:
                summed.add(axis)
                reducer = whole
            elif isinstance(dependence, Nonlinear):
                rejected.setdefault(axis, dependence.reason)
            else:
                summed.add(axis)
                _find_addends(trace, output, axis, dependence, rejected, addends)
    is_written, has_zero_terms = output.value is not None, _has_zero_terms(trace, output, moving)
    return OutputPattern(dimensions, frozenset(summed), frozenset(moving), is_written, reducer, has_zero_terms)


def _has_zero_terms(trace: Trace, output: Output, moving: Collection[str]) -> bool:
    """Return True if inputs of zeros add nothing to the sums in an output.

    Sums over axes in the description's `starts` are exempt, because a copy that knows its start skips terms by position.
    """
    if output.value is None:
        return True
    starts = trace.description.starts
    sums = (node for node in walk(output.value) if isinstance(node, Reduction) and node.reducer == "Sum")
    terms = [node.body for node in sums if not starts.issuperset(node.variables)]
    if set(output.variables) - set(moving):
        terms.append(output.value)
    return all(find_factors(term) or is_zero(term) for term in terms)


def _find_addends(
    trace: Trace, output: Output, axis: str, linear: Linear, rejected: dict[str, str], addends: dict[int, set[str]]
) -> None:
    """Find an input for each term beside the sum over `axis` that makes the term zero, and is used nowhere else."""
    inside: dict[int, int] = {}
    for addend in linear.addends:
        for access in accesses(addend):
            inside[access.tensor.position] = inside.get(access.tensor.position, 0) + 1
    total: dict[int, int] = {}
    for value in _values(trace):
        for access in accesses(value):
            total[access.tensor.position] = total.get(access.tensor.position, 0) + 1
    for addend in linear.addends:
        alone = [position for position in sorted(find_factors(addend)) if inside[position] == total[position]]
        if not alone:
            rejected.setdefault(axis, f"a term beside the sum over {axis} would be added once per part")
        else:
            addends.setdefault(alone[0], set()).add(axis)


def _absolute_positions(trace: Trace) -> Iterator[tuple[str, str]]:
    for value in _values(trace):
        for node in walk(value):
            if isinstance(node, Position):
                for name in sorted(set(node.index.variables) - trace.description.starts - trace.description.counts):
                    yield (
                        name,
                        f"the position {node.index} is used as a number, and a part would count {name} from zero",
                    )


def _opaque_results(trace: Trace) -> Iterator[tuple[str, str]]:
    for value in _values(trace):
        for node in walk(value):
            if isinstance(node, OpaqueElement):
                for index in node.indices:
                    for name in sorted(index.variables):
                        yield name, f"{name} indexes into the result of an opaque function"


def _shared_randomness(trace: Trace, outputs: tuple[OutputPattern, ...]) -> Iterator[tuple[str, str]]:
    """Yield the axes along which several parts would draw the same random element."""
    for output, pattern in zip(trace.outputs, outputs, strict=True):
        if output.value is not None and any(isinstance(node, RandomElement) for node in walk(output.value)):
            for name in trace.definitions:
                if name not in pattern.moving:
                    yield (
                        name,
                        f"an output is drawn at random once for all of {name}, and every part would draw its own",
                    )


def _inconsistent(trace: Trace, inputs: tuple[InputPattern, ...]) -> Iterator[tuple[str, str]]:
    """Yield the axes along which several reads of one dimension move by different amounts."""
    for tensor, pattern in zip(trace.tensors, inputs, strict=True):
        for d, dimension in enumerate(pattern.dimensions):
            names = dict.fromkeys(name for index in dimension.indices for name in index.terms)
            for name in names:
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
    """Return True if a split of `axis` leaves all other extents, strides and offsets unchanged at any shapes."""
    symbols = [extent for tensor in trace.tensors for extent in tensor.extents]
    symbols += [extent for extents in trace.output_extents for extent in extents]
    dimensions = [d for read in inputs for d in read.dimensions] + [
        d for written in outputs for d in written.dimensions
    ]
    moved: set[ExtentSymbol] = set()
    for symbol, dimension in zip(symbols, dimensions, strict=True):
        if any(axis in index.terms for index in dimension.indices):
            if any(dict(index.terms) != {axis: 1} or index.constant != 0 for index in dimension.indices):
                return False
            moved.add(symbol)
    own = {definition.extent for definition in trace.definitions[axis]}
    others = [d.extent for name, known in trace.definitions.items() if name != axis for d in known]
    others += [e for dim in dimensions for index in dim.indices for e in (*index.terms.values(), index.constant)]
    changing = moved | {extent_symbol(f"{axis}.extent")}
    return own <= moved and not any(changing & expression.free_symbols for expression in others)


def _value_extents(trace: Trace) -> frozenset[ExtentSymbol]:
    return frozenset(
        symbol
        for value in _values(trace)
        for node in walk(value)
        if isinstance(node, Position)
        for symbol in node.index.expression.free_symbols
        if isinstance(symbol, ExtentSymbol)
    )


def _is_elementwise(trace: Trace) -> bool:
    first = trace.outputs[0].variables if trace.outputs else ()
    if any(o.groups is None or o.variables != first or max(map(len, o.groups), default=1) > 1 for o in trace.outputs):
        return False
    if tuple(trace.definitions) != first:
        return False
    return all(
        len(access.indices) == len(first)
        and all(isinstance(i, Index) and str(i) == name for i, name in zip(access.indices, first, strict=True))
        for value in _values(trace)
        for access in accesses(value)
    )


def _find_moved(trace: Trace, inputs: tuple[InputPattern, ...]) -> tuple[tuple[MovedElement, ...], ...] | None:
    read = [position for position, pattern in enumerate(inputs) if pattern.is_read]
    outputs = []
    for output in trace.outputs:
        elements = None if output.value is None else find_moved_elements(output.value)
        if not read or elements is None or sorted(moved.element.tensor.position for moved in elements) != read:
            return None
        outputs.append(elements)
    return tuple(outputs)


def _find_choosing(trace: Trace, moved: tuple[tuple[MovedElement, ...], ...] | None) -> frozenset[str]:
    chosen = [element.chosen for elements in moved or () for element in elements if element.chosen is not None]
    return frozenset(name for name, _ in chosen)


def _values(trace: Trace) -> Iterator[Value]:
    for output in trace.outputs:
        if output.value is not None:
            yield output.value
        for coordinate in output.coordinates:
            if isinstance(coordinate, WholeDimension) and coordinate.position is not None:
                yield coordinate.position
