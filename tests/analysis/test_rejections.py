"""Why an index variable is no strategy, in a sentence."""

from __future__ import annotations

import pytest

from tofu.analysis import Absent, Combine, Row, analyse
from tofu.errors import DescriptionError
from tofu.tdl import (
    Max,
    Opaque,
    Prod,
    Random,
    Sum,
    describe,
    exp,
    log,
    maximum,
    merge,
    output,
    position,
    scatter,
    sqrt,
    where,
)


def rejected(function, inputs, outputs, attributes=None, **options):
    access = analyse(describe(function, **options), attributes or {}, inputs, outputs)
    return dict(access.rejected)


MATRIX, VECTOR = [(4, 6)], [(4,)]


def test_extent_one():
    assert rejected(lambda x: lambda i, j: -x[i, j], [(1, 6)], [(1, 6)]) == {"i": "the extent of i is 1"}


def test_two_accesses_that_move_differently():
    reasons = rejected(lambda x: lambda i, j: exp(x[i, j]) / Sum(lambda k: exp(x[i, k])), MATRIX, MATRIX)
    assert reasons == {
        "j": "dimension 1 of x is read at j and elsewhere, so a part of j needs more than its own elements",
        "k": "the sum over k is inside divide, which is not linear",
    }


@pytest.mark.parametrize(("shift", "span"), [(1, "0 to 7"), (-1, "-1 to 6")])
def test_reading_over_either_border(shift, span):
    reasons = rejected(lambda x: lambda i: x[i] + 2 * x[i + shift], [(6,)], [(6,)])
    assert reasons == {
        "i": f"padding: dimension 0 of x is accessed from {span} of 6, and no bound attribute (pads=) removes the border "
        "from the copies"
    }


def test_absolute_positions():
    one_hot = lambda label: lambda b, c: where(label[b] == c, 1.0, 0.0)  # noqa: E731
    assert rejected(one_hot, [(4,)], [(4, 6)]) == {
        "c": "the position c is used as a number, and a part would count c from zero"
    }
    triangle = lambda x: lambda i, j: where(position(i) >= position(j), x[i, j], 0)  # noqa: E731
    assert set(rejected(triangle, [(4, 4)], [(4, 4)])) == {"i", "j"}


def test_cells_that_are_chosen_by_their_position():
    """A tensor that is one cell of a dimension which it lacks is moved there; masks, computed cells and other choices are no stacks."""
    pair = lambda x, y: lambda i, j: where(position(i) == 0, x[j], 0.0) + where(position(i) == 1, y[j], 0.0)  # noqa: E731
    access = analyse(describe(pair), {}, [(4,), (4,)], [(2, 4)])
    assert (access.axes, access.fetched_axes) == (("i", "j"), ("i",))
    assert [one.absent for one in access.inputs] == [Absent(0, Row(((0, 1),), -n, 1 - n)) for n in (0, 1)]
    third = lambda x: scatter(lambda i, j: ((i,), where(position(j) == 2, x[i, j], 0.0)))  # noqa: E731
    access = analyse(describe(third), {}, MATRIX, [(4,)])
    assert (access.axes, access.fetched_axes, access.inputs[0].absent) == (("i", "j"), ("j",), None)
    assert access.outputs[0].absent == Absent(1, Row(((1, 1),), -2, -1))
    assert access.outputs[0].combine == (Combine.CONCAT, Combine.CONCAT)
    reason = {"i": "the position i is used as a number, and a part would count i from zero"}
    for other in (
        lambda x: lambda i, j: where(position(i) == 1, x[i, j], 0.0),  # a mask: as many dimensions
        lambda x: lambda i, j, k: where(position(i) == 1, x[j, k] * 2, 0.0),
        lambda x: lambda i, j, k: where(position(i) == 1, x[j, k], 1.0),
        lambda x: lambda i, j, k: where(position(i) == 0.5, x[j, k], 0.0),
        lambda x: lambda i, j, k: where(position(i) >= 1, x[j, k], 0.0),
        lambda x: lambda i, j, k: where(position(i) == 1, x[k, j], 0.0),  # turned: no box in the order of the fetch
    ):
        rank = other(None).__code__.co_argcount
        assert rejected(other, [(4, 4)], [(4, 4) if rank == 2 else (3, 4, 4)]) == reason
    assert (
        rejected(lambda x: lambda i, j: where(position(i) == 1, x[j], 0.0), [(4,)], [(3, 4)], fill={"x": 1.0}) == reason
    )
    scalars = lambda x, y: lambda i: where(position(i) == 0, x[()], 0.0) + where(position(i) == 1, y[()], 0.0)  # noqa: E731
    assert rejected(scalars, [(), ()], [(2,)]) == reason


def test_local_sizes():
    reasons = rejected(lambda x: lambda i: Sum(lambda k: x[i, k]) / x.shape[1], MATRIX, VECTOR)
    assert reasons == {"k": "the value depends on the extent x.shape[1], which is smaller on a part of k"}


def test_opaque_functions():
    reasons = rejected(lambda x: lambda b, i: Opaque()(x[b, :])[i], MATRIX, MATRIX)
    assert reasons == {"i": "i indexes into the result of an opaque function"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda x: lambda i: sqrt(Sum(lambda k: x[i, k])), "the sum over k is inside sqrt, which is not linear"),
        (
            lambda x: lambda i: Sum(lambda k: x[i, k]) * Sum(lambda k: x[i, k]),
            "a product has two factors that depend on the sum over k",
        ),
        (
            lambda x: lambda i: maximum(Sum(lambda k: x[i, k]), 0),
            "the sum over k is inside maximum, which is not linear",
        ),
        (
            lambda x: lambda i: 1 - Prod(lambda k: x[i, k]),
            "k is reduced by Prod, and its partial results do not add up to the result",
        ),
        (
            lambda x: lambda i: 2 * Max(lambda k: x[i, k]),
            "k is reduced by Max, and its partial results do not add up to the result",
        ),
        (lambda x: lambda i: Sum(lambda k: x[i, k]) + 1, "a term beside the sum over k would be added once per part"),
    ],
)
def test_sums_that_cannot_be_taken_in_parts(value, reason):
    assert rejected(value, MATRIX, VECTOR) == {"k": reason}


def test_a_bias_used_twice_is_not_given_to_one_part_alone():
    def scaled(x, bias):
        return lambda i: (Sum(lambda k: x[i, k]) + bias[i]) * bias[i]

    assert rejected(scaled, [(4, 6), (4,)], VECTOR) == {
        "k": "a term beside the sum over k would be added once per part"
    }


def test_a_term_beside_a_sum_may_vanish_with_one_of_its_factors():
    def affine(x, beta, data):
        return lambda i: 2 * Sum(lambda k: x[i, k]) - beta[i] * log(data[i]) / 3

    access = analyse(describe(affine), {}, [(4, 6), (4,), (4,)], VECTOR)
    assert access.axes == ("i", "k")
    assert [read.addend_axes for read in access.inputs] == [(), (1,), ()]


def test_inner_variables_of_a_merged_dimension():
    flat = lambda x: output("(i j)", lambda i, j: x[i, j])  # noqa: E731
    assert rejected(flat, MATRIX, [(24,)]) == {
        "j": "j is not the outermost variable of (i j), so a part of it is not a box"
    }
    unflat = lambda x: lambda i, j: x[merge(i, j)]  # noqa: E731
    assert rejected(unflat, [(24,)], MATRIX) == {
        "j": "the stride of i is 6, but 1 in a part of j; if j is not the outermost variable of a merged "
        "dimension, its parts are not boxes; else write strides with merge()"
    }


def test_windows_and_borders():
    def pool(x):
        return lambda y: Max(lambda k: x[y + k - 1], extents={"k": 3})

    reasons = rejected(pool, [(8,)], [(8,)])
    assert reasons["y"] == (
        "padding: dimension 0 of x is accessed from -1 to 9 of 8, and no bound attribute (pads=) removes "
        "the border from the copies"
    )
    window = rejected(lambda x: lambda y: Sum(lambda k: x[y + k], extents={"k": 3}), [(8,)], [(6,)])
    assert window == {"k": "the extent of k is fixed by an attribute (3) that no bound= rewrites"}
    shift = rejected(lambda x: lambda y: 2 * x[y + 2], [(8,)], [(6,)])
    assert shift == {
        "y": "offset: dimension 0 of x is accessed from 2 to 8 of 8, and a copy would skip 2 elements of its own part"
    }


def test_a_sum_that_no_tensor_follows():
    reasons = rejected(lambda x: lambda i: Sum(lambda k: x[i, 0], extents={"k": x.shape[1]}), MATRIX, VECTOR)
    assert reasons == {
        "k": "a copy would take k to have 6 instead of 1 values when k is split: no tensor's dimension follows it"
    }


def test_an_index_that_depends_on_a_local_extent():
    halves = rejected(lambda x: lambda i: x[i] + x[i + x.shape[0] // 2], [(8,)], [(4,)])
    assert set(halves) == {"i"}


def test_a_diagonal_moves_two_dimensions():
    assert rejected(lambda x: scatter(lambda i: ((i, i), x[i])), VECTOR, [(4, 4)]) == {
        "i": "i moves two dimensions of an output at once, so its parts are not boxes"
    }
    assert rejected(lambda x: lambda i: x[i, i], [(4, 4)], VECTOR) == {}


def test_random_values_can_be_drawn_in_parts():
    access = analyse(describe(lambda x: lambda *i: Random()(x[i]) * x[i]), {}, MATRIX, MATRIX)
    assert access.axes == ("i0", "i1")
    assert access.elementwise


def test_a_random_value_that_parts_would_have_to_share():
    reasons = rejected(lambda x: (lambda i, j: x[i, j], lambda j: Random()()), MATRIX, [(4, 6), (6,)])
    assert reasons == {"i": "an output is drawn at random once for all of i, and every part would draw its own"}


def test_the_four_ways_in_which_outputs_come_together():
    def everything(x):
        return (
            lambda i, j: x[i, j],
            lambda j: Sum(lambda i: x[i, j]),
            scatter(lambda i, j, k: ((i + k, j), x[i, j]), extents={"k": 2}),
        )

    access = analyse(describe(everything), {}, MATRIX, [(4, 6), (6,), (5, 6)])
    combine = [written.combine[access.axes.index("i")] for written in access.outputs]
    assert combine == [Combine.CONCAT, Combine.REDUCE, Combine.OVERLAP_ADD]
    row = describe(lambda x, y: (lambda i: x[i], lambda j: y[j]))
    replicated = analyse(row, {}, [(4,), (6,)], [(4,), (6,)])
    assert replicated.outputs[1].combine == (Combine.REPLICATE, Combine.CONCAT)


def test_extents_that_contradict_each_other():
    def dot(a, b):
        return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])

    description = describe(dot)
    with pytest.raises(DescriptionError) as caught:
        analyse(description, {}, [(4, 6), (5, 3)], [(4, 3)])
    place = f"{description.place.file}:{description.place.line + 1}"
    assert str(caught.value).endswith(
        "k of dot has the extent 6 by a.shape[1] and 5 by b.shape[0]; declare it with extents=, or give different "
        "index variables different names (inputs [(4, 6), (5, 3)], outputs [(4, 3)])"
    )
    assert place.endswith(str(caught.value).split(": ")[0].rsplit("/", 1)[-1])


def test_groups_that_do_not_divide():
    grouped = describe(lambda x: output("(g c)", lambda g, c: x[merge(g, c)], extents={"g": 4}))
    with pytest.raises(DescriptionError, match=r"output\.shape\[0\]/g\.extent = 10 / 4 is not an integer"):
        analyse(grouped, {}, [(10,)], [(10,)])


def test_worker_attributes_are_those_that_change():
    def linear(x, w, *, num_hidden, flatten=True, scale=1.0):
        return lambda b, o: scale * Sum(lambda k: x[b, k] * w[o, k])

    description = describe(linear, bound={"num_hidden": "o"})
    access = analyse(description, {"num_hidden": 8, "flatten": True}, [(4, 6), (8, 6)], [(4, 8)])
    assert access.worker_attributes({"o": (1, 4)}, [(4, 6), (3, 6)], [(4, 3)]) == {"num_hidden": 3}
    assert access.worker_attributes({"b": (0, 2)}, [(2, 6), (8, 6)], [(2, 8)]) == {}


def test_a_bound_function_that_fails_names_its_attribute():
    description = describe(lambda x, *, n=1: lambda i: x[i], bound={"n": lambda local: local.extent("nothing")})
    with pytest.raises(DescriptionError, match="the function bound to `n` of <lambda> raised"):
        analyse(description, {}, VECTOR, VECTOR)
