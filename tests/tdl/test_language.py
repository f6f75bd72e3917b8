"""What can be written in a description, and the exact words for what cannot."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from tofu.errors import DescriptionError, NotAffineError
from tofu.tdl import Any, Max, Sum, describe, exp, merge, output, scatter, trace, unwritten


def traced(function, inputs, ranks, attributes=None, **options):
    return trace(describe(function, ("operator",), **options), attributes or {}, inputs, ranks)


def message_of(error, function, inputs, ranks, attributes=None):
    """The message without its place, which must be a line of the description."""
    with pytest.raises(error) as caught:
        traced(function, inputs, ranks, attributes)
    place, _, message = str(caught.value).partition(": ")
    lines, first = inspect.getsourcelines(function)
    line = int(place.rsplit(":", 1)[1])
    assert place.rsplit(":", 1)[0].endswith("test_language.py")
    assert first <= line < first + len(lines)
    return message


FIGURE_4 = (
    "; interval analysis covers affine index expressions only (paper section 4.2, Figure 4). "
    "Write Any instead, which reads the whole dimension"
)


def test_the_examples_of_the_paper():
    def conv1d(data, filters):
        return lambda b, co, x: Sum(lambda ci, dx: data[b, ci, x + dx] * filters[ci, co, dx])

    result = traced(conv1d, [(2, 3, 8), (3, 4, 3)], [3])
    assert [str(known[0].extent) for known in result.definitions.values()] == [
        "output.shape[0]",
        "output.shape[1]",
        "output.shape[2]",
        "data.shape[1]",
        "filters.shape[2]",
    ]
    assert list(result.definitions) == ["b", "co", "x", "ci", "dx"]


def test_star_variables_follow_the_rank():
    result = traced(lambda x: lambda n, *s: exp(x[(n, *s)]), [(2, 3, 4)], [3])
    assert result.outputs[0].variables == ("n", "s0", "s1")
    merged = traced(
        lambda x: output("n (g c) *s", lambda n, g, c, *s: x[(n, merge(g, c), *s)], {"g": 2}), [(2, 6, 4)], [3]
    )
    assert merged.outputs[0].groups == (("n",), ("g", "c"), ("s0",))


def test_captured_defaults_are_no_index_variables():
    result = traced(lambda x: tuple(lambda i, d=d: x[i, d] for d in range(2)), [(4, 2)], [1, 1])
    assert [o.variables for o in result.outputs] == [("i",), ("i",)]


def test_absent_inputs_are_none():
    def layer(x, bias=None):
        return lambda i: x[i] if bias is None else x[i] + bias[i]

    assert str(traced(layer, [(3,)], [1])).endswith("output[i] = x[i]")
    assert str(traced(layer, [(3,), (3,)], [1])).endswith("output[i] = x[i] + bias[i]")


def test_shapes_are_numbers_in_a_concrete_description():
    def halves(x):
        assert x.shape[0] == 6
        return lambda i: x[i + x.shape[0] // 2]

    assert str(traced(halves, [(6,)], [1], concrete=True)).endswith("x[i + 3]")


def test_products_of_index_variables():
    def f(x):
        return lambda i, j: x[i * j]

    assert message_of(NotAffineError, f, [(9,)], [2]) == "i times j is a product of index variables" + FIGURE_4


def test_inexact_division_and_remainders():
    def f(x):
        return lambda i: x[(i + 1) // 2]

    def g(x):
        return lambda i: x[i % 2]

    assert message_of(NotAffineError, f, [(9,)], [1]) == "(i + 1) // 2 is not an exact division" + FIGURE_4
    assert message_of(NotAffineError, g, [(9,)], [1]) == "i % 2 is a remainder of index variables" + FIGURE_4


def test_comparisons_of_index_variables():
    def f(x):
        return lambda i, j: (i < j) * x[i, j]

    assert message_of(NotAffineError, f, [(9, 9)], [2]) == (
        "i is compared with j, both of them index expressions; interval analysis covers affine index expressions only "
        "(paper section 4.2, Figure 4). Write position(i) for one of them"
    )


def test_data_dependent_indices():
    def f(table, index):
        return lambda n, e: table[index[n], e]

    assert message_of(NotAffineError, f, [(9, 4), (3,)], [2]) == (
        "dimension 0 of table is indexed by data. Write Any(...) around the index: the whole dimension is then read"
    )
    traced(lambda table, index: lambda n, e: table[Any(index[n]), e], [(9, 4), (3,)], [2])


def test_branching_on_traced_values():
    def f(x):
        return lambda i: x[i] if x[i] > 0 else 0

    def g(x):
        return lambda i: sum(x[d] for d in range(x.shape[0])) + x[i]

    assert message_of(DescriptionError, f, [(9,)], [1]) == (
        "a traced value has no truth value; choose between values with where(condition, a, b)"
    )
    assert message_of(DescriptionError, g, [(9,)], [1]) == (
        "x.shape[0] is symbolic: a description is traced once for all shapes. If the numbers decide what "
        "the operator does, register it with op(..., concrete=True)"
    )


def test_extents_that_are_not_known():
    def f(x):
        return lambda i: Max(lambda k: x[2 * i + k])

    def g(x):
        return output("(a b)", lambda a, b: x[merge(a, b)])

    assert message_of(DescriptionError, f, [(9,)], [1]) == (
        'the extent of k is unknown: k alone indexes no tensor\'s dimension; declare it with extents={"k": ...}'
    )
    assert message_of(DescriptionError, g, [(9,)], [1]) == (
        "the extents of a and b in (a b) are unknown; declare all but one with extents="
    )


def test_names_of_index_variables():
    def shadow(x):
        return lambda i: Sum(lambda i: x[i])

    def unknown(x):
        return lambda i: Sum(lambda k: x[i + k], extents={"q": 3})

    assert message_of(DescriptionError, shadow, [(9,)], [1]) == (
        "the index variable i is in use already; give the reduction another name"
    )
    assert message_of(DescriptionError, unknown, [(9,)], [1]) == (
        "extents are declared for q, which the lambda does not take; it takes k"
    )


def test_ranks_that_do_not_fit():
    def element(x):
        return lambda i: x[i]

    def dimensions(x):
        return lambda i, j: x[i, j]

    def cells(x):
        return scatter(lambda i, j: ((i, j), x[i, j]))

    assert message_of(DescriptionError, element, [(9, 9)], [1]) == "x has 2 dimensions and is indexed with 1"
    assert (
        message_of(DescriptionError, dimensions, [(9, 9)], [3])
        == "the output is described as `i j` but has 3 dimensions"
    )
    assert (
        message_of(DescriptionError, cells, [(9, 9)], [1]) == "scatter gives 2 coordinates, the output has 1 dimensions"
    )


def test_numbers_of_inputs_and_outputs():
    def f(x, y):
        return lambda i: x[i] + y[i]

    assert (
        message_of(DescriptionError, f, [(9,)], [1]) == "operator is described with the inputs (x, y), the node has 1"
    )
    assert (
        message_of(DescriptionError, f, [(9,), (9,)], [1, 1]) == "operator is described with 1 outputs, the node has 2"
    )


def test_mistakes_in_python_carry_their_place():
    def f(x, *, kernel):
        return lambda i: x[i + kernel[5]]

    assert message_of(DescriptionError, f, [(9,)], [1], {"kernel": (3, 3)}) == (
        "the description of operator raised IndexError: tuple index out of range"
    )


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (np.tanh, ": write tanh from tofu.tdl"),
        (math.tanh, ": write the function of that name from tofu.tdl"),
        (np.exp2, ", and tofu.tdl has no exp2: make one by elementwise('my_exp2', np.exp2)"),
    ],
)
def test_functions_of_numpy_name_those_of_the_language(function, advice):
    def f(x):
        return lambda i: function(x[i])

    message = message_of(DescriptionError, f, [(9,)], [1])
    assert message.startswith("the description of operator raised TypeError: ")
    assert message.endswith(f". A description is traced on symbols{advice}")


def test_what_a_description_returns():
    def number(x):
        return 3

    assert message_of(DescriptionError, number, [(9,)], [1]) == (
        "a description returns a lambda, output(...), scatter(...) or unwritten(...), not 3"
    )


def test_patterns():
    def twice(x):
        return unwritten("b b")

    def broken(x):
        return unwritten("b (c")

    assert message_of(DescriptionError, twice, [(9,)], [2]) == "`b b` names a dimension twice"
    assert message_of(DescriptionError, broken, [(9,)], [2]) == "`b (c` is no list of dimensions such as `b (g co) *s`"
