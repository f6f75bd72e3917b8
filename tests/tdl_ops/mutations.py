"""Wrong descriptions made from right ones: a shifted index, exchanged dimensions, another reducer, a missing term."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from tofu.tdl import Description
from tofu.tdl.expression import Call, Constant, Element, Index, Reduction, Unread, Value
from tofu.tdl.forms import Form, Output, as_form
from tofu.tdl.walk import walk

REDUCERS = {"Sum": "Max", "Max": "Sum", "Prod": "Sum", "Min": "Max"}
FUNCTIONS = {
    "add": "subtract",
    "subtract": "add",
    "multiply": "add",
    "divide": "multiply",
    "exp": "square",
    "sqrt": "exp",
}


def list_broken_values(value: Value) -> Iterator[tuple[str, Value | None]]:
    yield from list_mutants(value)
    if not isinstance(value, Constant) or value.number:  # zeros may be
        yield "called unwritten", None


def list_mutants(value: Value) -> Iterator[tuple[str, Value]]:
    yield from _break(value)
    if isinstance(value, Reduction):
        yield from ((name, replace(value, body=body)) for name, body in list_mutants(value.body))
    if isinstance(value, Call):
        for n, argument in enumerate(value.arguments):
            for name, mutant in list_mutants(argument):
                yield name, replace(value, arguments=(*value.arguments[:n], mutant, *value.arguments[n + 1 :]))


def _break(value: Value) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Element):
        yield from _break_indices(value)
    if isinstance(value, Reduction):
        yield f"{value.reducer} -> {REDUCERS[value.reducer]}", replace(value, reducer=REDUCERS[value.reducer])
    if isinstance(value, Constant) and value.number:
        yield "another constant", Constant(value.number + 1)
    if (
        isinstance(value, Call)
        and value.function in FUNCTIONS
        and not any(isinstance(index_before, Unread) for index_before in walk(value))
    ):
        yield f"{value.function} -> {FUNCTIONS[value.function]}", replace(value, function=FUNCTIONS[value.function])
        if len(value.arguments) > 1:
            yield "missing term", value.arguments[0]
            yield "missing term", value.arguments[1]


def _break_indices(element: Element) -> Iterator[tuple[str, Value]]:
    indices = element.indices
    for d, index in enumerate(indices):
        if isinstance(index, Index) and index.variables:
            yield "shifted index", replace(element, indices=(*indices[:d], index + 1, *indices[d + 1 :]))
    for d, (index_before, index_after) in enumerate(pairwise(indices)):
        if str(index_before) != str(index_after):
            yield (
                "exchanged dimensions",
                replace(element, indices=(*indices[:d], index_after, index_before, *indices[d + 2 :])),
            )


class _Mutated(Form):
    def __init__(self, form: Form, number: int) -> None:
        self.form, self.number = form, number

    def trace(self, rank: int) -> Output:
        traced = self.form.trace(rank)
        return replace(traced, value=list(list_broken_values(traced.value))[self.number][1])


def break_description(description: Description, output: int, number: int) -> Description:

    def broken(*tensors, **attributes):
        results = description.function(*tensors, **attributes)
        forms = [
            as_form(index_before, description.place)
            for index_before in (results if isinstance(results, tuple) else (results,))
        ]
        forms[output] = _Mutated(forms[output], number)
        return tuple(forms)

    return replace(description, function=broken, cache={})
