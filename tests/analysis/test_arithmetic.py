import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import analyse, find_signature
from tofu.tdl import Sum, describe, position, scatter, where


def count(description, inputs, outputs, attributes=None):
    access = analyse(description, attributes or {}, inputs, outputs)
    found = find_signature(description, attributes or {}, inputs, outputs).arithmetic
    extents = access.variable_extents
    return [
        tuple(
            sum(
                count_of_term.count(extents)
                for count_of_term in output
                if count_of_term.is_contraction(extents) is wanted
            )
            for wanted in (True, False)
        )
        for output in found
    ]


def test_products_are_contractions_if_operands_are_reused():
    dot = describe(lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]))
    assert count(dot, [(4, 6), (6, 8)], [(4, 8)]) == [(2 * 4 * 6 * 8, 0)]
    ((product,),) = find_signature(dot, {}, [(4, 6), (6, 8)], [(4, 8)]).arithmetic
    assert product.count_depth({"i": 4, "j": 8, "k": 6}) == 6
    assert count(dot, [(4, 6), (6, 1)], [(4, 1)]) == [(0, 2 * 4 * 6)]
    squares = describe(lambda a: lambda i: Sum(lambda k: a[i, k] * a[i, k]))
    assert count(squares, [(4, 6)], [(4,)]) == [(0, 2 * 4 * 6)]


def test_invariant_terms_are_computed_once():
    centred = describe(lambda a: lambda i, j: a[i, j] - Sum(lambda k: a[i, k]) / 6)
    assert count(centred, [(4, 6)], [(4, 6)]) == [(0, 4 * 6 + 4 * 6 + 4)]  # differences, sums, quotients


def test_lookups_are_not_contractions():
    take = describe(lambda table, index: lambda i, e: Sum(lambda v: where(index[i] == position(v), table[v, e], 0.0)))
    ((contracted, other),) = count(take, [(1000, 8), (5,)], [(5, 8)])
    assert contracted == 0
    assert other < 10 * 5 * 8


def test_a_scatter_adds_at_every_point():
    spread = describe(lambda a: scatter(lambda i, d: ((i + d,), a[i]), extents={"d": 3}))
    assert count(spread, [(6,)], [(8,)]) == [(0, 6 * 3)]


@pytest.mark.parametrize(("kernel", "depth"), [("(1, 1)", 16), ("(3, 3)", 16 * 9)])
def test_convolutions_and_their_gradients(kernel, depth):
    attributes = {"kernel": kernel, "num_filter": "32", "no_bias": "True", "pad": "(1, 1)" if depth > 16 else "(0, 0)"}
    size = 3 if depth > 16 else 1
    data, weight, output = (4, 16, 10, 10), (32, 16, size, size), (4, 32, 10, 10)
    forward = count(DESCRIPTIONS["Convolution"], [data, weight], [output], attributes)
    assert forward == [(2 * 4 * 32 * 100 * depth, 0)]
    backward = count(DESCRIPTIONS["_backward_Convolution"], [output, data, weight], [data, weight], attributes)
    assert [contracted for contracted, _ in backward] == [forward[0][0]] * 2
