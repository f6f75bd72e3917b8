"""Check that an output is linear in a sum, so that the sum can be split over workers.

If a sum is split, each worker evaluates the output with its part of the sum, and the results are added. This is correct
if only these operations are applied to the sum: +, -, negation, and multiplication or division by factors that do not
depend on the summed axis.

A term that is added to the sum (an *addend*, such as a bias) would count once per worker. It is allowed if one input is
a factor of the term and is used nowhere else. All workers but one then read zeros for that input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tofu.tdl.expression import (
    AnyOf,
    Call,
    Constant,
    Element,
    Index,
    OpaqueElement,
    Position,
    Reduction,
    TensorSlice,
    Unread,
    Value,
)
from tofu.tdl.walk import children


@dataclass(frozen=True)
class Linear:
    """The value is linear in the sum over the axis. `addends` are terms that do not depend on the axis."""

    addends: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Nonlinear:
    """The value depends on the axis in another way."""

    reason: str


@dataclass
class Mentions:
    """Cache of the index variables that each value depends on, including the variables of its reductions."""

    _known: dict[int, frozenset[str]] = field(default_factory=dict)

    def of(self, value: Value) -> frozenset[str]:
        """Return the names of the index variables below `value`."""
        known = self._known.get(id(value))
        if known is None:
            known = _own_variables(value).union(*(self.of(child) for child in children(value)))
            self._known[id(value)] = known
        return known


def _own_variables(value: Value) -> frozenset[str]:
    if isinstance(value, Reduction):
        return frozenset(value.variables)
    if isinstance(value, Position):
        return value.index.variables
    indices: list[object] = []
    if isinstance(value, (Element, OpaqueElement)):
        indices += value.indices
    if isinstance(value, OpaqueElement):
        for argument in value.arguments:
            indices += argument.indices if isinstance(argument, TensorSlice) else ()
    return frozenset().union(*(index.variables for index in indices if isinstance(index, (Index, AnyOf))))


def classify_sum(value: Value, axis: str, mentions: Mentions) -> Linear | Nonlinear:
    """Return how `value` depends on the sum over `axis`."""
    if isinstance(value, Reduction):
        return _classify_reduction(value, axis, mentions)
    if isinstance(value, Call):
        if value.function in ("add", "subtract", "negative"):
            return _classify_terms(value.arguments, axis, mentions)
        if value.function == "multiply":
            return _classify_factors(value.arguments, axis, mentions)
        if value.function == "divide" and axis not in mentions.of(value.arguments[1]):
            return _classify_factors(value.arguments, axis, mentions)
        if value.function == "where" and axis not in mentions.of(value.arguments[0]):
            return _classify_terms(value.arguments[1:], axis, mentions)
        return Nonlinear(f"the sum over {axis} is inside {value.function}, which is not linear")
    return Nonlinear(f"the sum over {axis} is inside a function that is not known to be linear")


def find_whole_reducer(value: Value, axis: str) -> str | None:
    """Return the reducer if `value` itself is a reduction over the axis. The same reducer then combines partial results."""
    return value.reducer if isinstance(value, Reduction) and axis in value.variables else None


def _classify_reduction(value: Reduction, axis: str, mentions: Mentions) -> Linear | Nonlinear:
    if axis in value.variables:
        if value.reducer == "Sum":
            return Linear()
        return Nonlinear(f"{axis} is reduced by {value.reducer}, and its partial results do not add up to the result")
    if value.reducer != "Sum":
        return Nonlinear(f"the sum over {axis} is inside {value.reducer}, which is not linear")
    return classify_sum(value.body, axis, mentions)


def _classify_terms(terms: tuple[Value, ...], axis: str, mentions: Mentions) -> Linear | Nonlinear:
    addends: list[Value] = []
    for term in terms:
        if axis not in mentions.of(term):
            if not is_zero(term):
                addends.append(term)
            continue
        part = classify_sum(term, axis, mentions)
        if isinstance(part, Nonlinear):
            return part
        addends += part.addends
    return Linear(tuple(addends))


def _classify_factors(factors: tuple[Value, ...], axis: str, mentions: Mentions) -> Linear | Nonlinear:
    dependent = [factor for factor in factors if axis in mentions.of(factor)]
    if len(dependent) > 1:
        return Nonlinear(f"a product has two factors that depend on the sum over {axis}")
    return classify_sum(dependent[0], axis, mentions)


def is_zero(value: Value) -> bool:
    """Return True if `value` is zero for all inputs."""
    if isinstance(value, Call):
        if value.function in ("add", "subtract", "negative"):
            return all(map(is_zero, value.arguments))
        if value.function == "where":
            return all(map(is_zero, value.arguments[1:]))
        return value.function == "multiply" and any(map(is_zero, value.arguments))
    return isinstance(value, Unread) or (isinstance(value, Constant) and value.number == 0)


class MovedElement(NamedTuple):
    """Input element that an operator copies to an output.

    If `chosen` is (variable, value), it is copied only where the index variable has this value. Elsewhere it is zero.
    """

    element: Element
    chosen: tuple[str, int] | None = None


def find_moved_elements(value: Value) -> tuple[MovedElement, ...] | None:
    """Return the elements whose plain sum is `value`, or None if `value` is anything but a sum of elements."""
    if isinstance(value, Element):
        return (MovedElement(value),)
    if is_zero(value):
        return ()
    if isinstance(value, Call) and value.function == "where":
        condition, element, otherwise = value.arguments
        chosen = _read_choice(condition)
        is_chosen = isinstance(element, Element) and chosen is not None and is_zero(otherwise)
        return (MovedElement(element, chosen),) if is_chosen and isinstance(element, Element) else None
    if not (isinstance(value, Call) and value.function == "add"):
        return None
    terms = [find_moved_elements(argument) for argument in value.arguments]
    return None if None in terms else tuple(moved for elements in terms for moved in elements or ())


def _read_choice(condition: Value) -> tuple[str, int] | None:
    if not (isinstance(condition, Call) and condition.function == "equal"):
        return None
    place, number = condition.arguments
    if not (isinstance(place, Position) and isinstance(number, Constant)):
        return None
    name = str(place.index)
    is_bare = place.index.variables == {name}
    value = number.number
    is_position = not isinstance(value, complex) and float(value).is_integer()
    return (name, int(value.real)) if is_bare and is_position else None


def find_factors(value: Value) -> frozenset[int]:
    """Return the positions of the inputs that make `value` zero when they are zero."""
    if isinstance(value, Element):
        return frozenset((value.tensor.position,))
    if isinstance(value, Reduction) and value.reducer == "Sum":
        return find_factors(value.body)
    if isinstance(value, Call):
        parts = [find_factors(argument) for argument in value.arguments]
        if value.function == "multiply":
            return parts[0] | parts[1]
        if value.function in ("divide", "negative"):
            return parts[0]
        if value.function in ("add", "subtract", "where"):
            terms = value.arguments[1:] if value.function == "where" else value.arguments
            kept = [part for part, term in zip(parts[-len(terms) :], terms, strict=True) if not is_zero(term)]
            return frozenset.intersection(*kept) if kept else frozenset()
    return frozenset()
