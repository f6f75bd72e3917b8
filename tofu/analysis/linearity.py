"""Check that an output is linear in a sum, so that the sum can be split over workers.

If a sum is split, each worker computes the output with its part of the sum, and the results are added. This is correct
if the output only adds, subtracts or negates the sum, and multiplies or divides it by factors that do not depend on the
summed axis.

A term that is added to the sum, such as a bias, is an *addend*. Each worker would add it once. So an addend is allowed
only if it is a multiple of an input that is used nowhere else. One worker reads this input, and all others read zeros.
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
    """A value that is linear in the sum over an axis. `addends` are terms beside the sum, such as a bias."""

    addends: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Nonlinear:
    """A value that is not linear in the sum over an axis."""

    reason: str


@dataclass
class VariableCache:
    """A cache of the index variables that each value depends on."""

    _variables_by_value: dict[int, frozenset[str]] = field(default_factory=dict)

    def variables_of(self, value: Value) -> frozenset[str]:
        """Return the names of all index variables in `value`."""
        variables = self._variables_by_value.get(id(value))
        if variables is None:
            variables = _find_variables_of_node(value).union(*(self.variables_of(child) for child in children(value)))
            self._variables_by_value[id(value)] = variables
        return variables


def _find_variables_of_node(value: Value) -> frozenset[str]:
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


def classify_sum(value: Value, axis: str, cache: VariableCache) -> Linear | Nonlinear:
    """Check if `value` is linear in the sum over `axis`."""
    if isinstance(value, Reduction):
        return _classify_reduction(value, axis, cache)
    if isinstance(value, Call):
        if value.function in ("add", "subtract", "negative"):
            return _classify_terms(value.arguments, axis, cache)
        if value.function == "multiply":
            return _classify_factors(value.arguments, axis, cache)
        if value.function == "divide" and axis not in cache.variables_of(value.arguments[1]):
            return _classify_factors(value.arguments, axis, cache)
        if value.function == "where" and axis not in cache.variables_of(value.arguments[0]):
            return _classify_terms(value.arguments[1:], axis, cache)
        return Nonlinear(f"the sum over {axis} is inside {value.function}, which is not linear")
    return Nonlinear(f"the sum over {axis} is inside a function that is not known to be linear")


def find_outermost_reducer(value: Value, axis: str) -> str | None:
    """Return the reducer ("Sum", "Max", ...) if `value` is a reduction over `axis`, else None."""
    return value.reducer if isinstance(value, Reduction) and axis in value.variables else None


def _classify_reduction(value: Reduction, axis: str, cache: VariableCache) -> Linear | Nonlinear:
    if axis in value.variables:
        if value.reducer == "Sum":
            return Linear()
        return Nonlinear(f"{axis} is reduced by {value.reducer}, and its partial results do not add up to the result")
    if value.reducer != "Sum":
        return Nonlinear(f"the sum over {axis} is inside {value.reducer}, which is not linear")
    return classify_sum(value.body, axis, cache)


def _classify_terms(terms: tuple[Value, ...], axis: str, cache: VariableCache) -> Linear | Nonlinear:
    addends: list[Value] = []
    for term in terms:
        if axis not in cache.variables_of(term):
            if not is_zero(term):
                addends.append(term)
            continue
        dependence = classify_sum(term, axis, cache)
        if isinstance(dependence, Nonlinear):
            return dependence
        addends += dependence.addends
    return Linear(tuple(addends))


def _classify_factors(factors: tuple[Value, ...], axis: str, cache: VariableCache) -> Linear | Nonlinear:
    dependent = [factor for factor in factors if axis in cache.variables_of(factor)]
    if len(dependent) > 1:
        return Nonlinear(f"a product has two factors that depend on the sum over {axis}")
    return classify_sum(dependent[0], axis, cache)


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
    """An input element that an operator copies to an output.

    If `chosen` is (variable, number), the element is copied only where the index variable is this number. The output is
    zero elsewhere.
    """

    element: Element
    chosen: tuple[str, int] | None = None


def find_moved_elements(value: Value) -> tuple[MovedElement, ...] | None:
    """Return the input elements whose sum is `value`, or None if `value` is anything else."""
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
    left, right = condition.arguments
    if not (isinstance(left, Position) and isinstance(right, Constant)):
        return None
    name = str(left.index)
    is_bare = left.index.variables == {name}
    chosen_value = right.number
    is_integer = not isinstance(chosen_value, complex) and float(chosen_value).is_integer()
    return (name, int(chosen_value.real)) if is_bare and is_integer else None


def find_factors(value: Value) -> frozenset[int]:
    """Return the positions of the inputs that make `value` zero if they are zero."""
    if isinstance(value, Element):
        return frozenset((value.tensor.position,))
    if isinstance(value, Reduction) and value.reducer == "Sum":
        return find_factors(value.body)
    if isinstance(value, Call):
        factors_by_argument = [find_factors(argument) for argument in value.arguments]
        if value.function == "multiply":
            return factors_by_argument[0] | factors_by_argument[1]
        if value.function in ("divide", "negative"):
            return factors_by_argument[0]
        if value.function in ("add", "subtract", "where"):
            terms = value.arguments[1:] if value.function == "where" else value.arguments
            term_factors = [
                part for part, term in zip(factors_by_argument[-len(terms) :], terms, strict=True) if not is_zero(term)
            ]
            return frozenset.intersection(*term_factors) if term_factors else frozenset()
    return frozenset()
