"""Check that an output is linear in a sum. Only then can the sum be split over workers.

If a sum is split, each worker computes the output with its part of the sum, and the results are added. This works for
`2 * sum - bias`, but not for `exp(sum)`. Factors of the sum must be constant along the summed axis.

A term that is added to the sum, such as a bias, is an *addend*. Only one worker may add it. So an addend must be a
multiple of an input that is used nowhere else. One worker reads this input, and all other workers read zeros instead.
"""

from __future__ import annotations

from typing import NamedTuple

from tofu.tdl import expression as tdl
from tofu.tdl.walk import walk


class NotLinearError(Exception):
    """The output is not a linear function of a sum, so the sum cannot be split. The message states the reason."""


def find_variables(value: tdl.Value) -> frozenset[str]:
    """Return the names of all index variables in a formula."""
    return frozenset().union(*map(_find_variables_of_node, walk(value)))


def _find_variables_of_node(value: tdl.Value) -> frozenset[str]:
    if isinstance(value, tdl.Reduction):
        return frozenset(value.variables)
    if isinstance(value, tdl.Position):
        return value.index.variables
    indices: list[object] = []
    if isinstance(value, (tdl.Element, tdl.OpaqueElement)):
        indices += value.indices
    if isinstance(value, tdl.OpaqueElement):
        for argument in value.arguments:
            indices += argument.indices if isinstance(argument, tdl.TensorSlice) else ()
    return frozenset().union(*(index.variables for index in indices if isinstance(index, (tdl.Index, tdl.AnyOf))))


def find_addends(value: tdl.Value, axis: str) -> tuple[tdl.Value, ...]:
    """Return the terms that a formula adds to the sum over `axis`, such as a bias.

    Raise NotLinearError if the formula is not linear in the sum.
    """
    if isinstance(value, tdl.Reduction):
        if value.reducer == "Sum":
            return () if axis in value.variables else find_addends(value.body, axis)
        if axis in value.variables:
            raise NotLinearError(
                f"{axis} is reduced by {value.reducer}, and its partial results do not add up to the result"
            )
        raise NotLinearError(f"the sum over {axis} is inside {value.reducer}, which is not linear")
    if not isinstance(value, tdl.Call):
        raise NotLinearError(f"the sum over {axis} is inside a function that is not known to be linear")
    if value.function in ("add", "subtract", "negative"):
        terms = list(value.arguments)
    elif value.function == "where" and axis not in find_variables(value.arguments[0]):
        terms = list(value.arguments[1:])
    elif value.function == "multiply" or (
        value.function == "divide" and axis not in find_variables(value.arguments[1])
    ):
        terms = [factor for factor in value.arguments if axis in find_variables(factor)]
        if len(terms) > 1:
            raise NotLinearError(f"a product has two factors that depend on the sum over {axis}")
    else:
        raise NotLinearError(f"the sum over {axis} is inside {value.function}, which is not linear")
    addends: list[tdl.Value] = []
    for term in terms:
        if axis in find_variables(term):
            addends += find_addends(term, axis)
        elif not is_zero(term):
            addends.append(term)
    return tuple(addends)


def is_zero(value: tdl.Value) -> bool:
    """Return True if `value` is zero for all inputs."""
    if isinstance(value, tdl.Call):
        if value.function in ("add", "subtract", "negative"):
            return all(map(is_zero, value.arguments))
        if value.function == "where":
            return all(map(is_zero, value.arguments[1:]))
        return value.function == "multiply" and any(map(is_zero, value.arguments))
    return isinstance(value, tdl.Unread) or (isinstance(value, tdl.Constant) and value.number == 0)


class MovedElement(NamedTuple):
    """An input element that an operator copies to an output.

    `chosen` selects the copies. If it is ("i", 2), output elements with i = 2 are copies, and all other elements are
    zero.
    """

    element: tdl.Element
    chosen: tuple[str, int] | None = None


def find_moved_elements(value: tdl.Value) -> tuple[MovedElement, ...] | None:
    """Return the input elements that `value` adds up. Return None if it computes anything else."""
    if isinstance(value, tdl.Element):
        return (MovedElement(value),)
    if is_zero(value):
        return ()
    if isinstance(value, tdl.Call) and value.function == "where":
        condition, element, otherwise = value.arguments
        chosen = _read_choice(condition)
        is_chosen = isinstance(element, tdl.Element) and chosen is not None and is_zero(otherwise)
        return (MovedElement(element, chosen),) if is_chosen and isinstance(element, tdl.Element) else None
    if not (isinstance(value, tdl.Call) and value.function == "add"):
        return None
    terms = [find_moved_elements(argument) for argument in value.arguments]
    return None if None in terms else tuple(moved for elements in terms for moved in elements or ())


def _read_choice(condition: tdl.Value) -> tuple[str, int] | None:
    if not (isinstance(condition, tdl.Call) and condition.function == "equal"):
        return None
    left, right = condition.arguments
    if not (isinstance(left, tdl.Position) and isinstance(right, tdl.Constant)):
        return None
    name = str(left.index)
    is_bare = left.index.variables == {name}
    chosen_value = right.number
    is_integer = not isinstance(chosen_value, complex) and float(chosen_value).is_integer()
    return (name, int(chosen_value.real)) if is_bare and is_integer else None


def find_factors(value: tdl.Value) -> frozenset[int]:
    """Return the inputs that are factors of `value`: {0, 1} for the product of inputs 0 and 1."""
    if isinstance(value, tdl.Element):
        return frozenset((value.tensor.position,))
    if isinstance(value, tdl.Reduction) and value.reducer == "Sum":
        return find_factors(value.body)
    if isinstance(value, tdl.Call):
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
