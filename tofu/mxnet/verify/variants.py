"""Variants of a case, with other sizes and attributes, drawn by hypothesis.

Equal sizes in a case stay equal in a variant. Attributes with a few possible values take any that MXNet declares; other
numbers change by one. Variants that MXNet refuses are skipped.
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
from tofu.verification.kernel import Shape
from tofu.verification.numbers import Fixed, Numbers, uniform

LARGEST_SIZE = 9
MOST_CHANGED = 2  # number of changed attributes; with more, MXNet refuses too often
Given: TypeAlias = Numbers | Fixed
Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def variants(draw: Draw, case: Case) -> Case:
    """Draw `case` with other sizes and attributes."""
    sizes = sorted({extent for given in case.numbers for extent in given.shape if extent > 1})
    is_fixed = any(isinstance(given, Fixed) for given in case.numbers)
    drawn = {} if is_fixed else {size: draw(st.integers(1, LARGEST_SIZE)) for size in sizes}
    attributes = {name: _resize(value, drawn) for name, value in case.attributes.items()}
    if not case.relations:  # a relation may hold for the case's attributes only
        attributes |= draw(_changes(case, attributes, are_numbers_free=not is_fixed and not case.indexed))
    inputs = [_resize_numbers(given, drawn) for given in case.numbers]
    completed = complete_inputs(case, attributes, inputs)
    if completed is None:
        reject()
    tolerance = max(case.description_tolerance, SINGLE_PRECISION)
    return replace(case, attributes=attributes, inputs=completed, description_tolerance=tolerance)


def _resize(value: Any, drawn: Mapping[int, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_resize(item, drawn) for item in value)
    return value if isinstance(value, bool | float) else drawn.get(value, value)


def _resize_numbers(given: Given, drawn: Mapping[int, int]) -> Given:
    if isinstance(given, Fixed):
        return given
    high = drawn.get(int(given.high), given.high) if given.is_index else given.high
    low = min(given.low, high - 1 + given.is_length) if given.is_index else given.low
    return replace(given, shape=_resize(given.shape, drawn), low=low, high=high)


@st.composite
def _changes(draw: Draw, case: Case, attributes: Mapping[str, Any], are_numbers_free: bool) -> dict[str, Any]:
    """Draw other values for a few attributes. Numbers only change if no data index into tensors, which could become too small."""
    ranges: dict[str, st.SearchStrategy[Any]] = {
        name: st.sampled_from(values) for name, values in list_choices(case.op).items()
    }
    if are_numbers_free:
        numeric = {name: value for name, value in attributes.items() if _is_numeric(value) and name not in ranges}
        ranges |= {name: _near(value) for name, value in numeric.items()}
    if not ranges:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(ranges)), max_size=MOST_CHANGED, unique=True))
    return {name: draw(ranges[name]) for name in names}


def _is_numeric(value: Any) -> bool:
    items = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, int) and not isinstance(item, bool) for item in items)


def _near(value: int | tuple[int, ...]) -> st.SearchStrategy[Any]:
    if isinstance(value, tuple):
        return st.tuples(*map(_near, value))
    return st.sampled_from([number for number in (value, value + 1, value - 1) if number > 0 or value < 1])


def complete_inputs(case: Case, attributes: Mapping[str, Any], inputs: Sequence[Given]) -> list[Given] | None:
    """Return the inputs that the operator of `case` takes with other attributes; None if MXNet accepts none.

    An input that also existed before keeps its numbers, and its shape as far as MXNet accepts the first shapes.
    """
    before, symbol = (_compose(case.op, values, len(inputs)) for values in (case.attributes, attributes))
    if before is None or symbol is None:
        return None
    given = dict(zip(_find_variables(before), inputs, strict=False))
    entries = _find_variables(symbol)
    floating = [given.dtype for given in inputs if given.dtype.startswith("float")]
    added = replace(uniform(-1, 1), dtype=floating[0] if floating else "float64")
    sources = [given.get(name, added) for name in entries]
    shapes_given = {name: given[name].shape for name in entries if name in given}
    for known in range(len(shapes_given), -1, -1):
        shapes = _infer(symbol, dict(islice(shapes_given.items(), known)))
        if shapes is not None:
            found = [shapes[entry] for entry in entries.values()]
            return [_with_shape(source, shape) for source, shape in zip(sources, found, strict=True)]
    return None


def _find_variables(symbol: Any) -> dict[str, int]:
    return {node["name"]: node["entry"] for node in _mxnet.nodes(symbol.handle.value) if node["op"] == "null"}


def _with_shape(given: Given, shape: Shape) -> Given:
    return given if isinstance(given, Fixed) else replace(given, shape=shape)


def _compose(op: str, attributes: Mapping[str, Any], count: int) -> Any:
    texts = {name: str(value) for name, value in attributes.items()}
    for wanted in (None, count):
        try:
            return compose(op, texts, wanted)
        except mx.MXNetError:  # noqa: PERF203
            continue
    return None


def _infer(symbol: Any, known: Mapping[str, Shape]) -> list[Shape] | None:
    try:
        shapes, _ = _mxnet.infer(symbol.handle.value, known, {})
    except (TofuError, RuntimeError):
        return None
    if any(shape is None or min(shape, default=0) < 1 for shape in shapes):  # unknown shapes
        return None
    return [tuple(shape or ()) for shape in shapes]
