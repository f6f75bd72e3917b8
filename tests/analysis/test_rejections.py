import pytest

from tofu.analysis import Absent, Combine, Row, analyse
from tofu.errors import DescriptionError
from tofu.tdl import Any, Max, Opaque, Random, Sum, describe, exp, log, merge, output, position, scatter, sqrt, where


def find_rejected(function, inputs, outputs, attributes=None, **options):
    access = analyse(describe(function, **options), attributes or {}, inputs, outputs)
    return dict(access.rejected)


MATRIX, VECTOR = [(4, 6)], [(4,)]


def softmax(x):
    return lambda i, j: exp(x[i, j]) / Sum(lambda k: exp(x[i, k]))


def triangle(x):
    return lambda i, j: where(position(i) >= position(j), x[i, j], 0)


def mean(x):
    return lambda i: Sum(lambda k: x[i, k]) / x.shape[1]


def square_of_sum(x):
    return lambda i: Sum(lambda k: x[i, k]) * Sum(lambda k: x[i, k])


def scale_by_bias(x, bias):
    return lambda i: (Sum(lambda k: x[i, k]) + bias[i]) * bias[i]


def pool(x):
    return lambda y: Max(lambda k: x[y + k - 1], extents={"k": 3})


def sum_window(x):
    return lambda y: Sum(lambda k: x[y + k], extents={"k": 3})


def count_columns(x):
    return lambda i: Sum(lambda k: x[i, 0], extents={"k": x.shape[1]})


def add_halves(x):
    return lambda i: x[i] + x[i + x.shape[0] // 2]


def draw_rows(x):
    return lambda i, j: x[i, j], lambda j: Random()()


LINE = [(8,)]
PADDING = "padding: dimension 0 of x is accessed from {} of 8, and no bound attribute (pads=) removes"
REASONS = [
    (lambda x: lambda i, j: -x[i, j], [(1, 6)], [(1, 6)], {"i": "the extent of i is 1"}),
    (softmax, MATRIX, MATRIX, {"j": "dimension 1 of x is read at j and", "k": "the sum over k is inside divide"}),
    (lambda x: lambda i: x[i] + 2 * x[i + 1], LINE, LINE, {"i": PADDING.format("0 to 9")}),
    (pool, LINE, LINE, dict.fromkeys("yk", PADDING.format("-1 to 9"))),
    (sum_window, LINE, [(6,)], {"k": "the extent of k is fixed by an attribute (3) that no bound= rewrites"}),
    (lambda x: lambda y: 2 * x[y + 2], LINE, [(6,)], {"y": "offset: dimension 0 of x is accessed from 2 to 8 of 8"}),
    (triangle, [(4, 4)], [(4, 4)], {"i": "the position i is used as a number", "j": "the position j is used"}),
    (mean, MATRIX, VECTOR, {"k": "the value depends on the extent x.shape[1], which is smaller on a part of k"}),
    (lambda x: lambda b, i: Opaque()(x[b, :])[i], MATRIX, MATRIX, {"i": "i indexes into the result of an opaque"}),
    (lambda x: lambda i: sqrt(Sum(lambda k: x[i, k])), MATRIX, VECTOR, {"k": "the sum over k is inside sqrt"}),
    (square_of_sum, MATRIX, VECTOR, {"k": "a product has two factors that depend on the sum over k"}),
    (lambda x: lambda i: 2 * Max(lambda k: x[i, k]), MATRIX, VECTOR, {"k": "k is reduced by Max, and its partial"}),
    (scale_by_bias, [(4, 6), (4,)], VECTOR, {"k": "a term beside the sum over k would be added once per part"}),
    (
        lambda x: output("(i j)", lambda i, j: x[i, j] * position(i)),
        MATRIX,
        [(24,)],
        {"i": "the position i is used as a number", "j": "j is not the outermost variable of (i j)"},
    ),
    (
        lambda x: lambda i, j: x[merge(i, j)] * position(i),
        [(24,)],
        MATRIX,
        {"i": "the position i is used as a number", "j": "a part of j would be read at other positions than the same"},
    ),
    (
        lambda x: output("(i j)", lambda i, j: x[merge(j, i)], extents={"j": 6}),
        [(24,)],
        [(24,)],
        {"i": "the stride of j is 4, but 1 in a part of i", "j": "j is not the outermost variable of (i j)"},
    ),
    (
        lambda x: lambda i: x[Any(position(i) // 2, first=i, extent=5)],
        LINE,
        VECTOR,
        {"i": "the position i is used as a number, and a part would count i from zero"},
    ),
    (
        lambda x: lambda i: x[Any(0, first=i, extent=x.shape[0] - 3)],
        LINE,
        VECTOR,
        {"i": "a part of i would be read at other positions than the same elements of the whole"},
    ),
    (count_columns, MATRIX, VECTOR, {"k": "a copy would take k to have 6 instead of 1 values when k is split"}),
    (add_halves, LINE, VECTOR, {"i": ""}),
    (lambda x: scatter(lambda i: ((i, i), x[i])), VECTOR, [(4, 4)], {"i": "i moves two dimensions of an output"}),
    (lambda x: lambda i: x[i, i], [(4, 4)], VECTOR, {}),
    (draw_rows, MATRIX, [(4, 6), (6,)], {"i": "an output is drawn at random once for all of i"}),
]


@pytest.mark.parametrize(("function", "inputs", "outputs", "reasons"), REASONS)
def test_rejected_axes_have_reasons(function, inputs, outputs, reasons):
    found = find_rejected(function, inputs, outputs)
    assert found.keys() == reasons.keys()
    assert all(found[axis].startswith(reason) for axis, reason in reasons.items())


def test_stacks_are_recognized():
    """A tensor that is one slice of a stack is fetched. Masks, computed elements and other selections are not."""
    pair = lambda x, y: lambda i, j: where(position(i) == 0, x[j], 0.0) + where(position(i) == 1, y[j], 0.0)  # noqa: E731
    access = analyse(describe(pair), {}, [(4,), (4,)], [(2, 4)])
    assert (access.axes, access.fetched_axes) == (("i", "j"), ("i",))
    assert [read.absent for read in access.inputs] == [Absent(0, Row(((0, 1),), -n, 1 - n)) for n in (0, 1)]
    third = lambda x: scatter(lambda i, j: ((i,), where(position(j) == 2, x[i, j], 0.0)))  # noqa: E731
    access = analyse(describe(third), {}, MATRIX, [(4,)])
    assert (access.axes, access.fetched_axes, access.inputs[0].absent) == (("i", "j"), ("j",), None)
    assert access.outputs[0].absent == Absent(1, Row(((1, 1),), -2, -1))
    assert access.outputs[0].combine == (Combine.CONCAT, Combine.CONCAT)
    reason = {"i": "the position i is used as a number, and a part would count i from zero"}
    for function in (
        lambda x: lambda i, j: where(position(i) == 1, x[i, j], 0.0),
        lambda x: lambda i, j, k: where(position(i) == 1, x[j, k] * 2, 0.0),
        lambda x: lambda i, j, k: where(position(i) == 1, x[j, k], 1.0),
        lambda x: lambda i, j, k: where(position(i) == 0.5, x[j, k], 0.0),
        lambda x: lambda i, j, k: where(position(i) >= 1, x[j, k], 0.0),
        lambda x: lambda i, j, k: where(position(i) == 1, x[k, j], 0.0),  # turned: no box in the order of the fetch
    ):
        rank = function(None).__code__.co_argcount
        assert find_rejected(function, [(4, 4)], [(4, 4) if rank == 2 else (3, 4, 4)]) == reason
    row = lambda x: lambda i, j: where(position(i) == 1, x[j], 0.0)  # noqa: E731
    assert find_rejected(row, [(4,)], [(3, 4)], fill={"x": 1.0}) == reason
    scalars = lambda x, y: lambda i: where(position(i) == 0, x[()], 0.0) + where(position(i) == 1, y[()], 0.0)  # noqa: E731
    assert find_rejected(scalars, [(), ()], [(2,)]) == reason


def test_a_term_beside_a_sum_is_added_once():
    def affine(x, beta, data):
        return lambda i: 2 * Sum(lambda k: x[i, k]) - beta[i] * log(data[i]) / 3

    access = analyse(describe(affine), {}, [(4, 6), (4,), (4,)], VECTOR)
    assert access.axes == ("i", "k")
    assert [read.addend_axes for read in access.inputs] == [(), (1,), ()]


def test_random_values_are_drawn_in_parts():
    access = analyse(describe(lambda x: lambda *i: Random()(x[i]) * x[i]), {}, MATRIX, MATRIX)
    assert access.axes == ("i0", "i1")
    assert access.elementwise


def test_outputs_are_combined_in_four_ways():
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


def test_contradicting_extents_are_refused():
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


def test_groups_that_do_not_divide_are_refused():
    grouped = describe(lambda x: output("(g c)", lambda g, c: x[merge(g, c)], extents={"g": 4}))
    with pytest.raises(DescriptionError, match=r"output\.shape\[0\]/g\.extent = 10 / 4 is not an integer"):
        analyse(grouped, {}, [(10,)], [(10,)])


def test_worker_attributes_contain_only_changes():
    def linear(x, w, *, num_hidden, flatten=True, scale=1.0):
        return lambda b, o: scale * Sum(lambda k: x[b, k] * w[o, k])

    description = describe(linear, bound={"num_hidden": "o"})
    access = analyse(description, {"num_hidden": 8, "flatten": True}, [(4, 6), (8, 6)], [(4, 8)])
    assert access.worker_attributes({"o": (1, 4)}, [(4, 6), (3, 6)], [(4, 3)]) == {"num_hidden": 3}
    assert access.worker_attributes({"b": (0, 2)}, [(2, 6), (8, 6)], [(2, 8)]) == {}


def test_a_failing_bound_function_names_its_attribute():
    description = describe(lambda x, *, n=1: lambda i: x[i], bound={"n": lambda local: local.extent("nothing")})
    with pytest.raises(DescriptionError, match="the function bound to `n` of <lambda> raised"):
        analyse(description, {}, VECTOR, VECTOR)


def test_inner_variables_are_nested_in_outer_ones():
    extents = {"j": 3, "k": 5}
    flat = describe(lambda x: output("(i j k)", lambda i, j, k: x[i, j, k], extents=extents), concrete=True)
    access = analyse(flat, {}, [(4, 3, 5)], [(60,)])
    assert (access.axes, access.outer_axes) == (("i", "j", "k"), {"j": ("i",), "k": ("i", "j")})
    assert access.outputs[0].combine == (Combine.CONCAT,) * 3
    split = describe(lambda x: lambda i, j, k: x[merge(i, k), j])
    access = analyse(split, {}, [(20, 3)], [(4, 3, 5)])
    assert (access.axes, access.outer_axes) == (("i", "j", "k"), {"k": ("i",)})
