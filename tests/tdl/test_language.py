import inspect
import math

import numpy as np
import pytest

from tofu.errors import DescriptionError
from tofu.tdl import Any, Max, Sum, describe, exp, merge, output, scatter, trace, unwritten


def traced(function, inputs, ranks, attributes=None, **options):
    return trace(describe(function, ("operator",), **options), attributes or {}, inputs, ranks)


def message_of(function, inputs, ranks, attributes=None):
    with pytest.raises(DescriptionError) as caught:
        traced(function, inputs, ranks, attributes)
    place, _, message = str(caught.value).partition(": ")
    lines, first = inspect.getsourcelines(function)
    line = int(place.rsplit(":", 1)[1])
    assert place.rsplit(":", 1)[0].endswith("test_language.py")
    assert first <= line < first + len(lines)
    return message


def test_extents_of_the_papers_convolution():
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


def use_symbolic_extent(x):
    return lambda i: sum(x[d] for d in range(x.shape[0])) + x[i]


def merge_unknown_extents(x):
    return output("(a b)", lambda a, b: x[merge(a, b)])


def use_unknown_name(x):
    return lambda i: Sum(lambda k: x[i + k], extents={"q": 3})


LINE, MATRIX = [(9,)], [(9, 9)]
WRONG = [
    (lambda x: lambda i, j: x[i * j], LINE, 2, "i times j is a product of index variables; interval analysis covers"),
    (lambda x: lambda i: x[(i + 1) // 2], LINE, 1, "(i + 1) // 2 is not an exact division; interval analysis covers"),
    (lambda x: lambda i: x[i % 2], LINE, 1, "i % 2 is a remainder of index variables; interval analysis covers"),
    (lambda x: lambda i, j: (i < j) * x[i, j], MATRIX, 2, "i is compared with j, both of them index expressions; "),
    (lambda t, n: lambda i, e: t[n[i], e], [(9, 4), (3,)], 2, "dimension 0 of t is indexed by data. Write Any"),
    (lambda x: lambda i: x[i] if x[i] > 0 else 0, LINE, 1, "a traced value has no truth value; choose between values"),
    (lambda x: lambda i: x[Any(0, first=i)], LINE, 1, "Any takes both first= and extent=, or neither"),
    (use_symbolic_extent, LINE, 1, "x.shape[0] is symbolic: a description is traced once for all shapes."),
    (lambda x: lambda i: Max(lambda k: x[2 * i + k]), LINE, 1, "the extent of k is unknown: k alone"),
    (merge_unknown_extents, LINE, 1, "the extents of a and b in (a b) are unknown; declare all but one"),
    (lambda x: lambda i: Sum(lambda i: x[i]), LINE, 1, "the index variable i is in use already"),
    (use_unknown_name, LINE, 1, "extents are declared for q, which the lambda does not take; it takes k"),
    (lambda x: lambda i: x[i], MATRIX, 1, "x has 2 dimensions and is indexed with 1"),
    (lambda x: lambda i, j: x[i, j], MATRIX, 3, "the output is described as `i j` but has 3 dimensions"),
    (lambda x: scatter(lambda i, j: ((i, j), x[i, j])), MATRIX, 1, "scatter gives 2 coordinates, the output has 1"),
    (lambda x, y: lambda i: x[i] + y[i], LINE, 1, "operator is described with the inputs (x, y), the node has 1"),
    (lambda x: lambda i: x[i + (3, 3)[5]], LINE, 1, "the description of operator raised IndexError: tuple"),
    (lambda x: 3, LINE, 1, "a description returns a lambda, output(...), scatter(...) or unwritten(...), not 3"),
    (lambda x: unwritten("b b"), LINE, 2, "`b b` names a dimension twice"),
    (lambda x: unwritten("b (c"), LINE, 2, "`b (c` is no list of dimensions such as `b (g co) *s`"),
]


@pytest.mark.parametrize(("function", "inputs", "rank", "message"), WRONG)
def test_wrong_descriptions_are_refused_with_their_line(function, inputs, rank, message):
    assert message_of(function, inputs, [rank]).startswith(message)


def test_star_variables_follow_the_rank():
    result = traced(lambda x: lambda n, *s: exp(x[(n, *s)]), [(2, 3, 4)], [3])
    assert result.outputs[0].variables == ("n", "s0", "s1")
    merged = traced(
        lambda x: output("n (g c) *s", lambda n, g, c, *s: x[(n, merge(g, c), *s)], {"g": 2}), [(2, 6, 4)], [3]
    )
    assert merged.outputs[0].groups == (("n",), ("g", "c"), ("s0",))


def test_captured_defaults_are_not_index_variables():
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


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (np.tanh, ": write tanh from tofu.tdl"),
        (math.tanh, ": write the function of that name from tofu.tdl"),
        (np.exp2, ", and tofu.tdl has no exp2: make one by elementwise('my_exp2', np.exp2)"),
    ],
)
def test_numpy_functions_are_refused_with_a_replacement(function, advice):
    def f(x):
        return lambda i: function(x[i])

    message = message_of(f, [(9,)], [1])
    assert message.startswith("the description of operator raised TypeError: ")
    assert message.endswith(f". A description is traced on symbols{advice}")
