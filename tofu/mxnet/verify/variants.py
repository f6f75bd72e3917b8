"""Draw random variants of a case, with other sizes and attributes. This needs the package hypothesis.

Sizes that are equal in a case stay equal. An attribute with few possible values gets one of these values. Other numbers
change by one. Variants that MXNet refuses are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

import mxnet as mx
from hypothesis import reject
from hypothesis import strategies as st

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu import _mxnet
from tofu.errors import TofuError
from tofu.mxnet.verify.kernels import compose, list_choices
from tofu.mxnet.verify.nodes import write_attributes
from tofu.verification.kernel import Shape
from tofu.verification.numbers import Fixed, Numbers, uniform

LARGEST_SIZE = 9
MOST_CHANGED = 2  # attributes to change at once; if there are more, MXNet refuses too often
InputNumbers: TypeAlias = Numbers | Fixed
Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def variants(draw: Draw, case: Case) -> Case:
    """Draw a variant of `case` with other sizes and attributes."""
    sizes = sorted({extent for numbers in case.numbers for extent in numbers.shape if extent > 1})
    is_fixed = any(isinstance(numbers, Fixed) for numbers in case.numbers)
    new_sizes = {} if is_fixed else {size: draw(st.integers(1, LARGEST_SIZE)) for size in sizes}
    attributes = {name: _resize(value, new_sizes) for name, value in case.attributes.items()}
    if not case.relations:  # a relation may hold for the case's attributes only
        attributes |= draw(_draw_changes(case, attributes, changes_numbers=not is_fixed and not case.indexed))
    inputs = [_resize_numbers(numbers, new_sizes) for numbers in case.numbers]
    completed = complete_inputs(case, attributes, inputs)
    if completed is None:
        reject()
    tolerance = max(case.description_tolerance, SINGLE_PRECISION)
    return replace(case, attributes=attributes, inputs=completed, description_tolerance=tolerance)


def _resize(value: Any, new_sizes: Mapping[int, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_resize(item, new_sizes) for item in value)
    return value if isinstance(value, bool | float) else new_sizes.get(value, value)


def _resize_numbers(numbers: InputNumbers, new_sizes: Mapping[int, int]) -> InputNumbers:
    if isinstance(numbers, Fixed):
        return numbers
    high = new_sizes.get(int(numbers.high), numbers.high) if numbers.is_index else numbers.high
    low = min(numbers.low, high - 1 + numbers.is_length) if numbers.is_index else numbers.low
    return replace(numbers, shape=_resize(numbers.shape, new_sizes), low=low, high=high)


@st.composite
def _draw_changes(draw: Draw, case: Case, attributes: Mapping[str, Any], changes_numbers: bool) -> dict[str, Any]:
    ranges: dict[str, st.SearchStrategy[Any]] = {
        name: st.sampled_from(values) for name, values in list_choices(case.op).items()
    }
    if changes_numbers:  # False if a tensor could become too small for the indices in the data
        numeric = {name: value for name, value in attributes.items() if _is_numeric(value) and name not in ranges}
        ranges |= {name: _draw_near(value) for name, value in numeric.items()}
    if not ranges:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(ranges)), max_size=MOST_CHANGED, unique=True))
    return {name: draw(ranges[name]) for name in names}


def _is_numeric(value: Any) -> bool:
    items = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, int) and not isinstance(item, bool) for item in items)


def _draw_near(value: int | tuple[int, ...]) -> st.SearchStrategy[Any]:
    if isinstance(value, tuple):
        return st.tuples(*map(_draw_near, value))
    return st.sampled_from([number for number in (value, value + 1, value - 1) if number > 0 or value < 1])


def complete_inputs(
    case: Case, attributes: Mapping[str, Any], inputs: Sequence[InputNumbers]
) -> list[InputNumbers] | None:
    """Return inputs for the new `attributes`, or None if MXNet accepts no such inputs.

    The first inputs keep their shapes if possible.
    """
    case_symbol, symbol = (_compose(case.op, values, len(inputs)) for values in (case.attributes, attributes))
    if case_symbol is None or symbol is None:
        return None
    numbers_by_name = dict(zip(_find_variables(case_symbol), inputs, strict=False))
    entries = _find_variables(symbol)
    float_types = [numbers.dtype for numbers in inputs if numbers.dtype.startswith("float")]
    default = replace(uniform(-1, 1), dtype=float_types[0] if float_types else "float64")
    known_shapes = {name: numbers_by_name[name].shape for name in entries if name in numbers_by_name}
    for count in range(len(known_shapes), -1, -1):
        shapes = _infer(symbol, dict(islice(known_shapes.items(), count)))
        if shapes is not None:
            return [_with_shape(numbers_by_name.get(name, default), shapes[entry]) for name, entry in entries.items()]
    return None


def _find_variables(symbol: Any) -> dict[str, int]:
    return {node["name"]: node["entry"] for node in _mxnet.nodes(symbol.handle.value) if node["op"] == "null"}


def _with_shape(numbers: InputNumbers, shape: Shape) -> InputNumbers:
    return numbers if isinstance(numbers, Fixed) else replace(numbers, shape=shape)


def _compose(op: str, attributes: Mapping[str, Any], input_count: int) -> Any:
    for count in (None, input_count):
        try:
            return compose(op, write_attributes(attributes), count)
        except mx.MXNetError:  # noqa: PERF203
            continue
    return None


def _infer(symbol: Any, variable_shapes: Mapping[str, Shape]) -> list[Shape] | None:
    try:
        shapes, _ = _mxnet.infer(symbol.handle.value, variable_shapes, {})
    except (TofuError, RuntimeError):
        return None
    if any(shape is None or min(shape, default=0) < 1 for shape in shapes):
        return None
    return [tuple(shape or ()) for shape in shapes]
